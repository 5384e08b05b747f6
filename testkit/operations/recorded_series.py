"""Records what exporters show at each scrape, as series for promtool's tests of rules.

As Prometheus would: a label of the target wins over one of the page unless the page's are honoured,
and a series that is gone from a page ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry

STEP_SECONDS = 60
"""How often Prometheus scrapes in these tests, and judges the rules."""


class RecordedSeries:
    """The values of each series by scrape; only of the names that are asked for."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._values: dict[str, dict[int, float]] = {}
        self._scrapes = 0

    def scrape(
        self,
        number: int,
        page: CollectorRegistry,
        labels: Mapping[str, str],
        *,
        honor_labels: bool = False,
    ) -> None:
        """Takes the page of one target at the scrape of this number."""
        self._scrapes = max(self._scrapes, number + 1)
        for metric in page.collect():
            for sample in metric.samples:
                if sample.name not in self._names:
                    continue
                own, target = dict(sample.labels), dict(labels)
                both = {**target, **own} if honor_labels else {**own, **target}
                text = ", ".join(f'{name}="{value}"' for name, value in sorted(both.items()))
                self._values.setdefault(f"{sample.name}{{{text}}}", {})[number] = sample.value

    def input_series(self) -> list[dict[str, str]]:
        """As `input_series` of promtool's tests."""
        return [
            {"series": series, "values": " ".join(_runs(values, self._scrapes))}
            for series, values in sorted(self._values.items())
        ]

    @property
    def series(self) -> list[str]:
        return sorted(self._values)


def _runs(values: Mapping[int, float], scrapes: int) -> Iterator[str]:
    """The values in promtool's words; equal ones in a row as one word."""
    words = []
    for number in range(scrapes):
        if number in values:
            words.append(f"{values[number]:.12g}")
        else:
            words.append("stale" if number - 1 in values else "_")
    for word, same in itertools.groupby(words):
        times = len(list(same))
        if word == "stale" or times == 1:
            yield from [word] * times
        else:
            yield f"{word}x{times - (word != '_')}"
