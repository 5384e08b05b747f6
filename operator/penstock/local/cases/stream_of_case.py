"""The stream that a case runs: in its mode, on a broker of its own, from the first record. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.triggers import Trigger
from penstock.command_line import CommandError
from penstock.driver.checkpoint.start_position import OTHER_START_OPTIONS
from penstock.local.cases.case_file import MODES, Case, ModeName
from penstock.local.kafka.stream_on_broker import (
    partitions_to_feed,
    redirect,
    topic_to_feed,
    topics_to_create,
    without_consumer_group,
)
from penstock.validation.schema_errors import describe_error
from penstock.validation.spec_check import find_problems

ROWS = "__penstock-rows"
"""The topic that gets the rows of a stream whose sink is no topic, as JSON."""
READS_NO_TOPIC = "reads no topic of Kafka, and cases give records to topics"
WRITE_TOPIC = "write topic in each record of in: the stream reads those of a topicPattern"
_IN_IMAGE = "local://"
_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_TRIGGERS: Mapping[ModeName, dict[str, Any]] = {
    "continuous": {"checkpointInterval": "200ms"},
    "microBatch": {},
    "realTime": {"batchDuration": "1s"},
    "availableNow": {},
}
_BY_MODE: Mapping[Mode, ModeName] = {
    Mode.CONTINUOUS: "continuous",
    Mode.MICRO_BATCH: "microBatch",
    Mode.ASYNC: "microBatch",
    Mode.REAL_TIME: "realTime",
    Mode.AVAILABLE_NOW: "availableNow",
}


class NotTestable(Exception):
    """Why no case can be run with a stream, or not in a mode."""


@dataclass(frozen=True)
class StreamOfCase:
    """What runs."""

    stream: ContinuousStream
    rows_as_json: bool
    """Its own sink is no topic, so the rows are written into one."""

    @property
    def default_topic(self) -> str | None:
        """The first that it reads by name; None with a pattern."""
        return topic_to_feed(self.stream.spec)

    def default_partition(self, topic: str) -> int | None:
        """One that it reads; None if it reads all."""
        assigned = partitions_to_feed(self.stream.spec, topic)
        return assigned[0] if assigned else None

    @property
    def sink_topic(self) -> str | None:
        """None if a column names the topics."""
        kafka = self.stream.spec.sink.kafka
        assert kafka is not None
        return kafka.topic

    @property
    def dead_letters(self) -> str | None:
        """The topic of dead letters."""
        kafka = self.stream.spec.source.kafka
        letters = None if kafka is None else kafka.dead_letters
        return None if letters is None else letters.topic


def modes_to_run(spec: StreamSpec, case: Case) -> list[ModeName]:
    """The modes that a case is run in. With `all` those that the query can have."""
    own = _BY_MODE[spec.trigger.mode]
    if case.modes is None:
        return [own]
    if case.modes == "all":
        # A stream is tested as a micro-batch one by the same runs as with availableNow.
        others = [mode for mode in MODES if mode not in (own, "availableNow")]
        return [own, *(mode for mode in others if _means_the_same(spec, _in_mode(spec, mode)))]
    return list(dict.fromkeys(case.modes))


def prepare(
    stream: ContinuousStream, mode: ModeName, bootstrap: str, paths: Mapping[str, str]
) -> StreamOfCase:
    """The stream in this mode on this broker; raises NotTestable.

    `paths`: those in the query, and what stands for them on this machine.
    """
    if stream.spec.source.kafka is None:
        raise NotTestable(f"the stream {READS_NO_TOPIC}")
    spec = _in_mode(stream.spec, mode)
    if isinstance(spec, str):
        raise NotTestable(f"{mode}: {spec}")
    as_json = spec.sink.kafka is None
    if as_json:
        sink = type(spec.sink).model_validate(
            {"kafka": {"bootstrapServers": bootstrap, "topic": ROWS}}
        )
        spec = spec.model_copy(update={"sink": sink})
    elif problems := _problems(spec):
        raise NotTestable(f"{mode}: {problems[0]}")
    spec = _from_the_first_record(_with_paths(spec, paths))
    moved = redirect(stream.model_copy(update={"spec": spec}), bootstrap).stream
    return StreamOfCase(without_consumer_group(moved), as_json)


def topics_of(run: StreamOfCase, cases: Iterable[Case]) -> dict[str, int]:
    """The topics that the cases of a file need, with their partitions: one, or as many as they
    name. Raises NotTestable.
    """
    named: dict[str, int] = {}

    def name(topic: str | None, partition: int | None) -> None:
        if topic is not None:
            named[topic] = max(named.get(topic, 1), (partition or 0) + 1)

    for step in (step for case in cases for step in case.all_steps):
        for record in step.in_:
            name(record.topic or run.default_topic, record.partition)
        for output in step.out or ():
            name(output.topic or run.sink_topic, output.partition)
        for letter in step.dead_letters or ():
            name(run.dead_letters, letter.partition)
    try:
        created = topics_to_create(run.stream.spec, 1, tuple(named))
    except CommandError:
        raise NotTestable(WRITE_TOPIC) from None
    return {topic: max(count, named.get(topic, 1)) for topic, count in created.items()}


def _in_mode(spec: StreamSpec, mode: ModeName) -> StreamSpec | str:
    """The spec in this mode, or why it cannot have it."""
    own = _BY_MODE[spec.trigger.mode]
    if mode == "microBatch" and own == "microBatch":
        return spec
    content = spec.model_dump(by_alias=True, exclude_unset=True, mode="json")
    try:
        return StreamSpec.model_validate({**content, "trigger": {mode: _TRIGGERS[mode]}})
    except ValidationError as error:
        messages = (problem.message for problem in describe_error(error))
        return "; ".join(it.removeprefix("the resource: ") for it in messages)


def _means_the_same(spec: StreamSpec, other: StreamSpec | str) -> bool:
    """Whether a query gives the same in another mode. One with state has to have the same output
    mode, and one without can run in continuous mode too.
    """
    if isinstance(other, str) or _problems(other):
        return False
    is_stateless = not _problems(_in_mode(spec, "continuous"))
    return is_stateless or execution_of(spec).output_mode == execution_of(other).output_mode


def _problems(spec: StreamSpec | str) -> list[str]:
    if isinstance(spec, str):
        return [spec]
    return [problem.message for problem in find_problems(spec, local=True)]


def of_batches(stream: ContinuousStream, *, always: bool = False) -> ContinuousStream:
    """The same query as one that ends once it has read all: the micro-batch engine's batches, with
    those without records that close windows. In other modes as it is, or `always`.
    """
    if stream.spec.trigger.mode.has_long_running_tasks and not always:
        return stream
    update: dict[str, Any] = {"trigger": Trigger.model_validate({"availableNow": {}})}
    if stream.spec.trigger.mode is Mode.REAL_TIME:
        update["output_mode"] = execution_of(stream.spec).output_mode
    return stream.model_copy(update={"spec": stream.spec.model_copy(update=update)})


def without_empty_batches(stream: ContinuousStream) -> ContinuousStream:
    """The same query, without the batches that only close windows, behind those with records."""
    conf = {**stream.spec.spark_conf, _EMPTY_BATCHES: "false"}
    return stream.model_copy(update={"spec": stream.spec.model_copy(update={"spark_conf": conf})})


def _from_the_first_record(spec: StreamSpec) -> StreamSpec:
    kafka = spec.source.kafka
    assert kafka is not None
    options = {
        name: text
        for name, text in kafka.options.items()
        if name.casefold() not in OTHER_START_OPTIONS
    }
    update = {
        "starting_offsets": "earliest",
        "starting_offsets_by_partition": {},
        "options": options,
    }
    source = spec.source.model_copy(update={"kafka": kafka.model_copy(update=update)})
    checkpoint = spec.checkpoint.model_copy(
        update={"generation": 0, "start_from": None, "object_store": None}
    )
    return spec.model_copy(update={"source": source, "checkpoint": checkpoint})


def _with_paths(spec: StreamSpec, paths: Mapping[str, str]) -> StreamSpec:
    if not paths:
        return spec
    transform = spec.transform
    # The longest first, and whole names only.
    any_path = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    found = re.compile(rf"(?<![\w./-])({any_path})(?![\w.-])")
    used = set[str]()

    def here(match: re.Match[str]) -> str:
        used.add(match[1])
        return paths[match[1]]

    def replaced(text: str) -> str:
        return found.sub(here, text)

    update: dict[str, Any] = {}
    if transform.sql is not None:
        update["sql"] = replaced(transform.sql)
    if transform.python is not None and transform.python.inline is not None:
        inline = replaced(transform.python.inline)
        update["python"] = transform.python.model_copy(update={"inline": inline})
    jars = [
        f"{_IN_IMAGE}{replaced(jar.removeprefix(_IN_IMAGE))}" if jar.startswith(_IN_IMAGE) else jar
        for jar in spec.dependencies.jars
    ]
    if unused := sorted(paths.keys() - used):
        raise NotTestable(f"paths: {unused[0]} is neither in the query nor in dependencies.jars")
    return spec.model_copy(
        update={
            "transform": transform.model_copy(update=update),
            "dependencies": spec.dependencies.model_copy(update={"jars": jars}),
        }
    )
