"""Programs of other people, judged by the values that they write, with a restart in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.driver.jvm import Jvm
from testkit.kafka.broker import Broker
from tests.integration.programs.collection import EVERY_CHANGE, PROGRAMS
from tests.integration.programs.running import Run

_RUNS = [
    pytest.param(
        name, mode, id=f"{name}-{mode}", marks=[] if run in EVERY_CHANGE else pytest.mark.full
    )
    for name, program in PROGRAMS.items()
    for mode in program.modes
    for run in [(name, mode)]
]


@pytest.mark.proves("write-a-stream.md#transform")
@pytest.mark.parametrize(("name", "mode"), _RUNS)
def test_every_value_is_right(
    name: str, mode: str, broker: Broker, jvm: Jvm, tmp_path: Path
) -> None:
    Run(PROGRAMS[name], mode, broker.bootstrap, tmp_path).run(jvm)
