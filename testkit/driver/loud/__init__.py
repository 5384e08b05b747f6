"""Data sources that say their options wherever they can, for tests of what is cut out of it."""

from __future__ import annotations

import html
from pathlib import Path

from testkit.commands import run

FOLDER = Path(__file__).parent
# What a value may have in it, and how a page or a log may write it.
_ODD = (
    """all' of "it" <&>\\ %2F ä""",
    'quo"te',
    "<tag>&amp;",
    "per%20cent",
    "back\\slash",
    "späte",
    "two words",
    "a\nb2-line-c",
)


def values(name: str, count: int) -> dict[str, str]:
    """Options with values that stand nowhere else."""
    return {
        f"{name}{number}": f"{name}val{number}-7Qx{number}-{_ODD[number % len(_ODD)]}"
        for number in range(count)
    }


def compiled_sources(folder: Path) -> Path:
    """A jar with those in Java."""
    import pyspark

    jars, jar = f"{Path(pyspark.__file__).parent}/jars/*", folder / "loud.jar"
    run(["javac", "-nowarn", "-cp", jars, "-d", folder / "classes", *FOLDER.glob("*.java")])
    run(["jar", "--create", "--file", jar, "-C", folder / "classes", "."])
    return jar


def shown(text: str, of: dict[str, str]) -> list[str]:
    """The values in a text, whole or a line of them, as they are or as HTML or JSON writes them."""
    once = text.replace('\\"', '"').replace("\\\\", "\\")
    twice = once.replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
    texts = (text, html.unescape(text), once, html.unescape(once), twice, html.unescape(twice))
    parts = [part for value in of.values() for part in value.splitlines() if len(part) > 3]
    return [part for part in parts if any(part in each for each in texts)]
