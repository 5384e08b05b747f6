"""The programs with Avro, in a JVM that has the jar for it as spec.dependencies adds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from penstock.driver.jvm import Jvm, fast_start_options
from penstock.driver.spark.session import submit_arguments
from testkit.kafka.broker import Broker
from testkit.kafka.jars import maven_jars
from testkit.streams.streams import stream
from tests.integration.programs.avro import AVRO
from tests.integration.programs.program import Program
from tests.integration.programs.running import Run

_POM = Path(__file__).with_name("pom.xml")


@pytest.fixture(scope="module")
def jvm_with_avro(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A second JVM. pyspark keeps its first one for the whole process, so it is set aside."""
    (jar,) = maven_jars("spark-avro", _POM).iterdir()
    spec = stream(dependencies={"jars": [f"file://{jar}"]}).spec
    submit = submit_arguments(spec, tmp_path_factory.mktemp("scratch"))
    options = fast_start_options([], 1024, cores=0)
    second = Jvm.launch(1024, class_path, "127.0.0.1", options, submit=submit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "_gateway", None)
        patch.setattr(SparkContext, "_jvm", None)
        yield second
    second.end()


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
