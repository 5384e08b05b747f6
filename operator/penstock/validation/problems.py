"""What is wrong with a spec, in messages that name the field and the remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.sizing import Size, size, stated_partitions
from penstock.sql.refusals import find_refusals


@dataclass(frozen=True)
class Problem:
    """Something that keeps a stream from running, or that its owner should know."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def describe_error(error: ValidationError) -> list[Problem]:
    """Why a resource is not a valid ContinuousStream."""
    return [Problem("InvalidSpec", _message(each)) for each in error.errors()]


def find_problems(spec: StreamSpec, *, local: bool = False) -> list[Problem]:
    """Why a valid spec cannot run, in a cluster or, with `local`, on one machine."""
    found = [Problem(each.reason, each.message) for each in find_refusals(spec)]
    return found if local else [*found, *_check_memory_sink(spec), *_check_size(spec)]


def find_warnings(spec: StreamSpec) -> list[Problem]:
    """What runs, but probably not as intended."""
    return [*_check_python(spec), *_check_plain_credentials(spec)]


def _check_memory_sink(spec: StreamSpec) -> list[Problem]:
    if spec.sink.memory is None:
        return []
    return [
        Problem(
            "MemorySinkInCluster",
            "spec.sink.memory keeps rows in the driver, where nobody in a cluster can read them: "
            "use sink.kafka or sink.console, or run the stream on your machine with `penstock run`",
        )
    ]


def _check_size(spec: StreamSpec) -> list[Problem]:
    """Checks a source whose partitions the spec states; only Kafka itself knows its own."""
    if spec.source.kafka is not None:
        return []
    sized = size(stated_partitions(spec.source, spec.spark_conf), spec)
    return [] if isinstance(sized, Size) else [Problem("TooFewExecutorsAllowed", str(sized))]


def _check_python(spec: StreamSpec) -> list[Problem]:
    if spec.transform.python is None or spec.trigger.continuous is None:
        return []
    return [
        Problem(
            "PythonInContinuousMode",
            "spec.transform.python: in trigger.continuous a Python or pandas UDF holds records "
            "until the epoch ends (measured: 526 ms with epochs of 1 s, against 16 ms for native "
            "expressions; no Arrow setting helps, and trigger.realTime refuses Python functions). "
            "Spark's own expressions in the function are not slowed down. Native alternatives: an "
            "expression in transform.sql, transform.functions, transform.javaFunctions, "
            "transform.java",
        )
    ]


_CREDENTIAL = re.compile(r"(password|secret|secret[._]?key|token|credentials?)$", re.IGNORECASE)


def _check_plain_credentials(spec: StreamSpec) -> list[Problem]:
    """A warning only: unlike Kafka with its secretOptions, these fields have no alternative."""
    maps = {"spec.sparkConf": spec.spark_conf}
    if spec.source.custom is not None:
        maps["spec.source.custom.options"] = spec.source.custom.options
    if spec.sink.custom is not None:
        maps["spec.sink.custom.options"] = spec.sink.custom.options
    return [
        Problem(
            "PlainCredential",
            f"{path}: {name} looks like a credential, and is readable in the resource and in a "
            "ConfigMap: if its library can read an environment variable or a file, provide it from "
            "a Secret in podTemplate",
        )
        for path, entries in maps.items()
        for name in entries
        if _CREDENTIAL.search(name)
    ]


# Our words for pydantic's types of errors.
_TYPE_ERRORS = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "should be an object"),
    "list_type": "should be a list",
    "string_type": "should be a string",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be an integer"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
    "extra_forbidden": "there is no such field",
    "missing": "this field is required",
}
# Maps whose values may be credentials, so messages never repeat them.
_SENSITIVE = {"options", "sparkConf"}
_MAX_VALUE_LENGTH = 80


def _message(error: ErrorDetails) -> str:
    path = "".join(_step(each) for each in error["loc"]).removeprefix(".") or "the resource"
    text = _TYPE_ERRORS.get(error["type"]) or _own_words(error["msg"])
    value = error["input"]
    if (
        error["type"] in ("extra_forbidden", "missing")
        or _SENSITIVE & set(error["loc"])
        or not isinstance(value, str | int | float)
        or len(str(value)) > _MAX_VALUE_LENGTH
    ):
        return f"{path}: {text}"
    return f"{path}: {text} (not {value!r})"


def _step(step: int | str) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _own_words(message: str) -> str:
    """The message of a rule or of pydantic, without pydantic's own phrases."""
    text = message.removeprefix("Value error, ").partition(" after validation, not")[0]
    return re.sub(r"^[A-Z][a-z]+ should ", "should ", text)
