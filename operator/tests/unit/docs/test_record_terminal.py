"""The recordings of a terminal in the README."""

import re
from xml.etree import ElementTree

import pytest

from scripts.record_terminal import RECORDINGS
from scripts.terminal_screen import COLUMNS, Screen, svg
from testkit.paths import CHECKOUT


def test_the_screen_follows_a_live_view() -> None:
    """A frame replaces the one before it, and lines that are printed above stay."""
    screen = Screen("make")
    screen.feed("one\r\ntwo\r\n")
    screen.feed("\r\x1b[2K\x1b[1A\x1b[2Krow\r\n\x1b[1mnew\x1b[0m\r\n")
    assert screen.lines[1:] == ("one", "row", "\x1b[1mnew\x1b[0m")


def test_a_control_sequence_may_arrive_in_two_pieces() -> None:
    """Reads from a terminal end anywhere."""
    screen = Screen("make")
    for piece in ("a\r\n", "b\x1b", "[2", "Kc\r\n"):
        screen.feed(piece)
    assert screen.lines[1:] == ("a", "c")


def test_a_long_line_goes_on_in_the_next_row() -> None:
    """As in a terminal; its colors take no room."""
    screen = Screen("make")
    screen.feed("\x1b[32m" + "x" * (COLUMNS + 2) + "\x1b[0m\r\nend\r\n")
    assert screen.lines[1:] == ("\x1b[32m" + "x" * COLUMNS, "xx\x1b[0m", "end")


def test_a_frame_is_drawn_with_its_colors() -> None:
    """Each run of one style is an element at its own column."""
    root = ElementTree.fromstring(svg([("\x1b[1;32mgo\x1b[0m  a<b",), ("end",)], "a label"))
    assert root.get("aria-label") == "a label"
    texts = root.findall(".//{http://www.w3.org/2000/svg}text")
    assert [(each.text, each.get("class")) for each in texts] == [
        ("go", "bold green"),
        ("a<b", None),
        ("end", None),
    ]
    columns = [float(each.get("x", "0")) for each in texts]
    assert columns[1] - columns[0] == 4 * 8.4


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_small_and_shows_nothing_private(name: str) -> None:
    """No download, no path of a machine; and the README shows it."""
    recording = RECORDINGS[name]
    text = recording.path.read_text()
    assert len(text) < 100_000
    assert set(re.findall(r"https?://[^\"\s<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)
    assert recording.command.split(" --with")[0] in text
    assert str(recording.path.relative_to(CHECKOUT)) in (CHECKOUT / "README.md").read_text()
