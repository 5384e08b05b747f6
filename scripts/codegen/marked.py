"""Fills the marked places of a document of which the rest is written by hand."""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(document: str, made: Mapping[str, str]) -> str:
    """Each place has the name of its text."""
    places = [name for _, name, _ in _PLACE.findall(document)]
    if sorted(places) != sorted(made):
        raise ValueError(f"the document must mark one place for each of: {', '.join(made)}")
    return _PLACE.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n{found[3]}", document)
