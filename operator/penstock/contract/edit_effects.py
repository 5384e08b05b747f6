"""What an edit of a spec does: the operator does it, and `penstock plan` foretells it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from penstock.api.v1alpha1.restarts_by_field import Change, change_of, without_live, without_query
from penstock.api.v1alpha1.spec import StreamSpec
from penstock.contract.secrets import query_secret_keys
from penstock.contract.sizing import executors_run_python

# The driver plans most queries in one or two seconds.
ANSWER_WITHIN: Final = timedelta(seconds=30)


def parts_of_pod(raw: Mapping[str, Any], spec: StreamSpec) -> list[Any]:
    """What a driver's pod depends on, besides an image that the spec does not name.

    A session's mode, the memory of its executors if these run Python, and the Secrets that source
    and sink mount depend on fields whose change alone leaves the pod. Nor is a ConfigMap with
    Python as new in the pod as in the API server, and an edit of both belongs together. `raw` is
    the spec as it is written, without defaults.
    """
    by_volume = any(function.config_map is not None for function in spec.python_functions)
    fields = without_live(raw) if by_volume else without_query(raw)
    return [fields, spec.trigger.mode.name, executors_run_python(spec), query_secret_keys(spec)]


def edited_fields(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of what is added, removed or changed; a list is one value.

    >>> list(edited_fields({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2}, "c": [1], "d": {"e": 3}}))
    [('a', 'b'), ('d', 'e')]
    """
    if not isinstance(before or after, Mapping) or not isinstance(after or before, Mapping):
        if before != after:
            yield path
        return
    old, new = before or {}, after or {}
    names = sorted({*old, *new})
    if not names and before != after:  # an empty object
        yield path
    for name in names:
        yield from edited_fields(old.get(name), new.get(name), (*path, name))


def change_of_edit(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """What an edit of a stream that runs does; None if it changes nothing.

    Raises ValidationError if a spec is invalid.
    """
    changes = {change_of(".".join(path)) for path in edited_fields(before, after)}
    if Change.REFUSED in changes:
        return Change.REFUSED
    if Change.STOP in changes and bool(before.get("suspend")) != bool(after.get("suspend")):
        return Change.STOP
    old, new = (parts_of_pod(raw, StreamSpec.model_validate(raw)) for raw in (before, after))
    if old != new:
        return Change.POD
    if without_live(before) != without_live(after):
        return Change.QUERY
    return Change.LIVE if changes else None
