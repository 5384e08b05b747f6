"""The cases of a stream, in a YAML file: records in, and what must come of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from penstock.api.v1alpha1.base import text_like
from penstock.validation.reading.documents import Document
from penstock.validation.reading.yaml_document import InvalidYaml, YamlPlace, compose
from penstock.validation.report import FileFinding
from penstock.validation.schema_errors import describe_error

ModeName = Literal["continuous", "microBatch", "realTime", "availableNow"]
"""The fields of spec.trigger."""
MODES: tuple[ModeName, ...] = ("continuous", "microBatch", "realTime", "availableNow")
_FORMS = ("", "_hex", "_file")
_EXPECTATIONS = ("out", "dead_letters", "dropped_late", "fails")
_LIKE_CASES = re.compile(rb"^cases *:", re.MULTILINE)
_LIKE_RESOURCE = re.compile(rb"^apiVersion *:", re.MULTILINE)
_NULLABLE = {"key", "value"}


def _as_time(text: str) -> str:
    try:
        time = datetime.fromisoformat(text)
        is_one = time.tzinfo is not None and milliseconds(text) >= 0
    except (ValueError, OverflowError):
        is_one = False
    if not is_one:
        raise ValueError("should be a time with its zone, such as 2026-11-30T10:00:00Z")
    return text


def _as_hex(text: str) -> str:
    try:
        bytes.fromhex(text)
    except ValueError:
        raise ValueError("should be bytes in hexadecimal, such as 00ff7a") from None
    return text


def _quoted(given: Any) -> Any:
    if isinstance(given, int | Decimal):
        raise ValueError("write it in quotes: YAML reads digits as a number")
    return given


def _as_modes(given: Any) -> tuple[str, ...] | Literal["all"]:
    if given == "all":
        return "all"
    if not isinstance(given, list) or not given or not set(given) <= set(MODES):
        raise ValueError(f"should be all, or a list of {', '.join(MODES)}")
    return tuple(given)


Modes = Annotated[tuple[ModeName, ...] | Literal["all"], PlainValidator(_as_modes)]
Time = Annotated[str, AfterValidator(_as_time)]
Hex = Annotated[str, BeforeValidator(_quoted), AfterValidator(_as_hex)]
Header = Annotated[str | None, BeforeValidator(_quoted)]
File = Annotated[str, Field(min_length=1)]
Topic = Annotated[
    str, text_like(r"^[a-zA-Z0-9._-]{1,249}$", "takes letters, digits, '.', '_' and '-'")
]


class _Object(BaseModel):
    """An object of a case file. Null is a value here, as a record's is, and no absent field."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    def has(self, name: str) -> bool:
        """Whether the field stands there."""
        return name in self.model_fields_set

    @model_validator(mode="after")
    def _no_null(self) -> Self:
        for name in self.model_fields_set - _NULLABLE:
            if getattr(self, name) is None:
                alias = type(self).model_fields[name].alias
                raise ValueError(f"{alias} is null: remove it, or write a value")
        return self


class _RecordFields(_Object):
    topic: Topic | None = Field(None, description="A topic; the stream's first one is the default.")
    partition: int | None = Field(None, ge=0, le=99)
    key: Any = Field(None, description="A text; or a map, list, number or boolean, as JSON.")
    key_hex: Hex = ""
    key_file: File | None = None
    value: Any = Field(None, description="As the key. Null: a record without a value.")
    value_hex: Hex = ""
    value_file: File | None = Field(None, description="A file with the bytes, beside this one.")
    headers: dict[str, Header] = Field(default_factory=dict, min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        for part in ("key", "value"):
            given = [to_camel(part + form) for form in _FORMS if self.has(part + form)]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} cannot be set together: keep one")
        return self


class InputRecord(_RecordFields):
    """A record that a topic of the source gets."""

    time: Time | None = Field(None, description="The record's timestamp; default: now.")
    lines: File | None = Field(
        None, description="A file, each line of which is the value of one such record."
    )

    @model_validator(mode="after")
    def _value_or_lines(self) -> Self:
        if self.has("lines") and any(self.has(f"value{form}") for form in _FORMS):
            raise ValueError("lines are the values: remove value")
        return self


class OutputRecord(_RecordFields):
    """A record that must come. Only the fields that stand here are compared."""

    value_includes: dict[str, Any] = Field(
        default_factory=dict,
        min_length=1,
        description="Fields that the value has, which is a JSON object; it may have others.",
    )

    @model_validator(mode="after")
    def _compares_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("an empty record says nothing: write its key or its value")
        return self


class DeadLetter(OutputRecord):
    """A record that must come into the dead-letter topic."""

    reason: str | None = Field(None, description="The reason of the failure, as in the status.")


class Failure(_Object):
    """The failure with which the stream must end."""

    reason: str = Field(description="As in the status, such as MalformedRecord.")
    message_includes: str = ""


class Step(_Object):
    """Records in, and what must come of them before the next step."""

    watermark: Time | None = Field(
        None,
        description="Event time has come so far before the records of this step: windows that end "
        "by then are closed.",
    )
    in_: list[InputRecord] = Field([], alias="in")
    kill: bool = Field(
        False,
        description="After this step the driver is killed, as it were: the last batch with records "
        "is written and not committed, and the next step begins with it.",
    )
    out: list[OutputRecord] | None = None
    dead_letters: list[DeadLetter] | None = None
    dropped_late: int | None = Field(None, ge=0)
    fails: Failure | None = None

    @property
    def expects(self) -> bool:
        """Whether it says anything of what must come."""
        return any(self.has(name) for name in _EXPECTATIONS)


class Case(Step):
    """A case: one step, or several."""

    name: str = Field(min_length=1, max_length=200)
    modes: Modes | None = Field(
        None,
        description="Default: the mode of the manifest. all: each one that the query can have.",
    )
    order: Literal["Any", "ByKey"] = Field(
        "Any", description="ByKey: records with the same key come in this order."
    )
    timeout_seconds: int = Field(60, ge=1, le=3600)
    steps: list[Step] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        own = {to_camel(name).rstrip("_") for name in Step.model_fields if self.has(name)}
        if self.steps and own:
            raise ValueError(f"move {', '.join(sorted(own))} into steps, or remove steps")
        if not any(step.expects for step in self.all_steps):
            raise ValueError("expects nothing: write out, deadLetters, droppedLate or fails")
        if any(step.kill and step.out is None for step in self.all_steps):
            raise ValueError("a step with kill needs out: what the batch has written")
        if self.all_steps[-1].kill:
            raise ValueError("kill needs a next step, which begins with the batch: write one")
        if any(before.kill and step.watermark for before, step in pairwise(self.all_steps)):
            raise ValueError("watermark cannot stand after a kill: write a step between")
        if any(step.fails is not None for step in self.all_steps[:-1]):
            raise ValueError("a stream that fails has no next step")
        return self

    @property
    def all_steps(self) -> list[Step]:
        return self.steps or [self]


class Cases(_Object):
    """A file of cases."""

    stream: str = Field(description="The manifest, beside this file.")
    paths: dict[str, str] = Field(
        default_factory=dict,
        description="Paths in the query, and what stands for them here, beside this file.",
    )
    cases: list[Case]

    @field_validator("cases")
    @classmethod
    def _names_differ(cls, cases: list[Case]) -> list[Case]:
        if not cases:
            raise ValueError("write at least one")
        names = [case.name for case in cases]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two cases have the name {twice!r}: change one")
        return cases


@dataclass(frozen=True)
class CaseFile:
    """A file that was read."""

    path: Path
    cases: Cases
    place: YamlPlace

    def beside(self, name: str) -> Path:
        """A file that it names."""
        return self.path.parent / name

    def line(self, case: Case) -> int:
        """Where the case begins."""
        number = self.cases.cases.index(case)
        return self.place.inside["cases"].inside[number].line


def read_cases(path: Path, data: bytes) -> CaseFile | list[FileFinding]:
    """The cases of a file, or what is wrong with it."""
    try:
        root = compose(data.decode("utf-8-sig"), for_kubectl=False)
    except UnicodeDecodeError:
        return [_finding(path, YamlPlace(1, 1), "not UTF-8: save the file as UTF-8")]
    except InvalidYaml as error:
        return [_finding(path, YamlPlace(error.line, error.column), error.reason)]
    if root is None or not isinstance(root.content, dict):
        return [_finding(path, YamlPlace(1, 1), "should be an object with stream and cases")]
    if {"apiVersion", "kind"} <= root.content.keys():
        return [_finding(path, YamlPlace(1, 1), "is a manifest: name the file with its cases")]
    document = Document(root.content, root.place, str(path))
    try:
        cases = Cases.model_validate(root.content)
    except ValidationError as error:
        return [
            _finding(path, YamlPlace(*document.locate(problem)), problem.message)
            for problem in describe_error(error, Cases)
        ]
    return CaseFile(path, cases, root.place)


def _finding(path: Path, place: YamlPlace, message: str) -> FileFinding:
    return FileFinding(str(path), place.line, place.column, "", "error", "InvalidCase", message)


def is_case_file(data: bytes) -> bool:
    """Whether a file of a folder is meant to hold cases, whatever is wrong with it.

    Beside them lie manifests, and templates that are no YAML.
    """
    try:
        root = compose(data.decode("utf-8-sig"), for_kubectl=False)
    except (UnicodeDecodeError, InvalidYaml):
        return _LIKE_CASES.search(data) is not None and _LIKE_RESOURCE.search(data) is None
    content = root.content if root is not None else None
    if not isinstance(content, dict) or {"apiVersion", "kind"} <= content.keys():
        return False
    return not content.keys().isdisjoint(("cases", "stream"))


def milliseconds(time: str) -> int:
    """A time as Kafka's and Spark's clocks count: since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)
