"""The recordings of a terminal in the README."""

import html
import re

import pytest

from scripts.record_terminal import RECORDINGS
from testkit.paths import CHECKOUT


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_small_and_shows_nothing_private(name: str) -> None:
    """No download, no path of a machine; and the README shows it."""
    recording = RECORDINGS[name]
    text = recording.path.read_text()
    assert len(text) < 100_000
    assert set(re.findall(r"https?://[^\"\s<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)
    shown = html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")
    assert recording.command.split(" --with")[0] in shown
    assert str(recording.path.relative_to(CHECKOUT)) in (CHECKOUT / "README.md").read_text()
