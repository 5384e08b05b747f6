"""What is wrong with a spec, in words that name the field and the remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.sizing import Size, size
from penstock.sql.refusals import refusals


@dataclass(frozen=True)
class Problem:
    """One thing that keeps a stream from running, or that its owner should know."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def of_error(error: ValidationError) -> list[Problem]:
    """Why a resource could not be read as a ContinuousStream."""
    return [Problem("InvalidSpec", _in_words(each)) for each in error.errors()]


def of_spec(spec: StreamSpec, *, local: bool = False) -> list[Problem]:
    """Why a spec that could be read cannot run, in the cluster or `local` on a machine."""
    found = [Problem(each.reason, each.message) for each in refusals(spec)]
    return found if local else [*found, *_of_memory(spec), *_of_size(spec)]


def warnings_of(spec: StreamSpec) -> list[Problem]:
    """What runs, but hardly as it was meant."""
    return [*_of_python(spec), *_of_plain_credentials(spec)]


def _of_memory(spec: StreamSpec) -> list[Problem]:
    if spec.sink.memory is None:
        return []
    return [
        Problem(
            "MemorySinkInCluster",
            "spec.sink.memory keeps rows where nobody in the cluster can read them: use sink.kafka "
            "or sink.console, or run the stream on your machine with `penstock run`",
        )
    ]


def _of_size(spec: StreamSpec) -> list[Problem]:
    """A source that states its partitions can be sized without asking it; Kafka cannot."""
    stated = next(
        (each.num_partitions for each in (spec.source.rate, spec.source.custom) if each), None
    )
    if stated is None:
        return []
    sized = size(stated, spec)
    if isinstance(sized, Size):
        return []
    return [Problem("TooFewExecutorsAllowed", str(sized))]


def _of_python(spec: StreamSpec) -> list[Problem]:
    if spec.transform.python is None or spec.trigger.continuous is None:
        return []
    return [
        Problem(
            "PythonInContinuousMode",
            "spec.transform.python: in trigger.continuous a Python or pandas UDF holds records "
            "until the epoch ends (measured: 526 ms at epochs of 1 s, against 16 ms for native "
            "expressions; no setting of Arrow helps, and trigger.realTime refuses such functions). "
            "Spark's own expressions in the function are not slowed. Native ways: an expression in "
            "transform.sql, transform.functions, transform.javaFunctions",
        )
    ]


_CREDENTIAL = re.compile(r"(password|secret|secret[._]?key|token|credentials?)$", re.IGNORECASE)


def _of_plain_credentials(spec: StreamSpec) -> list[Problem]:
    """Kafka's are refused, since secretOptions takes them; elsewhere there is no other way in."""
    maps = {"spec.sparkConf": spec.spark_conf}
    if spec.source.custom is not None:
        maps["spec.source.custom.options"] = spec.source.custom.options
    if spec.sink.custom is not None:
        maps["spec.sink.custom.options"] = spec.sink.custom.options
    return [
        Problem(
            "PlainCredential",
            f"{path}: {name} looks like a credential, and stands in plain text in the resource and "
            "in a ConfigMap: bring it in by podTemplate, as env or a volume from a Secret, if its "
            "library can read it from there",
        )
        for path, entries in maps.items()
        for name in entries
        if _CREDENTIAL.search(name)
    ]


# Maps of values that may be credentials, whatever they should be, and that are never repeated.
_FREE = {"options", "sparkConf"}
_LONGEST_SHOWN = 80


def _in_words(error: ErrorDetails) -> str:
    path = ".".join(str(step) for step in error["loc"]) or "the resource"
    if error["type"] == "extra_forbidden":
        return f"{path}: there is no such field"
    if error["type"] == "missing":
        return f"{path}: this field is required"
    text = error["msg"].removeprefix("Value error, ")
    value = error["input"]
    if _FREE & set(error["loc"]) or len(str(value)) > _LONGEST_SHOWN:
        return f"{path}: {text}"
    given = f" (not {value!r})" if isinstance(value, str | int | float) else ""
    return f"{path}: {text}{given}"
