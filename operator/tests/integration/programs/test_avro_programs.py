"""The programs with Avro, in a JVM that has the jar for it as spec.dependencies adds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.spark.session import submit_arguments
from testkit.driver.in_process_driver import second_jvm
from testkit.kafka.broker import Broker
from testkit.kafka.jars import maven_jars
from testkit.streams.streams import stream
from tests.integration.programs.avro import AVRO
from tests.integration.programs.program import Program
from tests.integration.programs.running import Run

_POM = Path(__file__).with_name("pom.xml")


@pytest.fixture(scope="module")
def jvm_with_avro(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    (jar,) = maven_jars("spark-avro", _POM).iterdir()
    spec = stream(dependencies={"jars": [f"file://{jar}"]}).spec
    submit = submit_arguments(spec, tmp_path_factory.mktemp("scratch"))
    with second_jvm(class_path, submit) as jvm:
        yield jvm


@pytest.mark.proves("write-a-stream.md#transform")
@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "mode"),
    [pytest.param(it, mode, id=f"{it.name}-{mode}") for it in AVRO for mode in it.modes],
)
def test_every_value_is_right(
    program: Program, mode: str, broker: Broker, jvm_with_avro: Jvm, tmp_path: Path
) -> None:
    Run(program, mode, broker.bootstrap, tmp_path).run(jvm_with_avro)
