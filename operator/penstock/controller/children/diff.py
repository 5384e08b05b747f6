"""Whether an observed object already matches a manifest, so that it is not written again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from penstock.api import group_version, quantities
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, text
from penstock.cluster.objects import Object

# The hash of the manifest that was applied last. An object contains a manifest that has lost a
# field; only the hash shows that it differs.
ANNOTATION_APPLIED = f"{group_version.GROUP}/applied"

# The server rewrites the quantities below these fields: 1024Mi comes back as 1Gi.
_QUANTITIES = frozenset({"requests", "limits", "sizeLimit"})


def with_applied_hash(manifest: Manifest) -> Manifest:
    """The manifest with its own hash as an annotation."""
    digest = content_hash(manifest)[:16]
    meta = manifest["metadata"]
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_APPLIED: digest}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def applied_hash(manifest: Manifest) -> str:
    """The hash that `with_applied_hash` added; empty if there is none."""
    return Object(manifest).annotations.get(ANNOTATION_APPLIED, "")


def content_hash(value: Any) -> str:
    content = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def up_to_date(desired: Manifest, observed: Object | None, settled: str | None = None) -> bool:
    """Whether applying the manifest, which has its hash, would change nothing.

    `settled` is the hash of the manifest that was applied last, if nobody has changed the object
    since. That is certain, whatever the API server or a webhook made of the manifest. Comparing
    the fields is not: the server drops empty lists, for example. So it only saves an apply.
    """
    if observed is None or applied_hash(desired) != applied_hash(observed.manifest):
        return False
    return settled == applied_hash(desired) or contained(desired, observed.manifest)


def contained(desired: Any, observed: Any, *, quantity: bool = False) -> bool:
    """Whether `observed` has every desired value; the server may have added others."""
    if isinstance(desired, Mapping):
        return isinstance(observed, Mapping) and all(
            key in observed
            and contained(value, observed[key], quantity=quantity or key in _QUANTITIES)
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return isinstance(observed, list) and _list_contained(desired, observed)
    if quantity:
        return _same_amount(str(desired), str(observed))
    return bool(desired == observed)


def _same_amount(desired: str, observed: str) -> bool:
    """Whether two quantities are equal; text that is no quantity equals only itself."""
    try:
        return desired == observed or quantities.amount(desired) == quantities.amount(observed)
    except ValueError:
        return False


def _name(entry: Any) -> str:
    return text(at(entry, "name"))


def _list_contained(desired: list[Any], observed: list[Any]) -> bool:
    if desired and all(_name(entry) for entry in desired):
        # Containers, variables, volumes: others may have added entries.
        by_name = {_name(entry): entry for entry in observed}
        return all(contained(entry, by_name.get(_name(entry))) for entry in desired)
    return len(desired) == len(observed) and all(
        contained(one, other) for one, other in zip(desired, observed, strict=True)
    )
