"""Whether the cluster already holds what is wanted, so that nothing is written twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from penstock.api import group_version
from penstock.controller.objects import Manifest, annotations_of

# What was applied last. A manifest that lost a field is still contained in the object that has
# it; the hash is what tells them apart.
ANNOTATION_APPLIED = f"{group_version.GROUP}/applied"

# Below these fields the server spells quantities its own way: 1024Mi comes back as 1Gi.
_QUANTITIES = frozenset({"requests", "limits", "sizeLimit"})
_FACTORS = {
    "m": Decimal("0.001"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50),
}  # fmt: skip


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with its own hash as an annotation."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    meta = manifest["metadata"]
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_APPLIED: digest}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def up_to_date(wanted: Manifest, found: Manifest | None) -> bool:
    """Whether applying the stamped manifest would change nothing."""
    if found is None:
        return False
    stamps = [annotations_of(each).get(ANNOTATION_APPLIED) for each in (wanted, found)]
    return stamps[0] == stamps[1] and contained(wanted, found)


def contained(wanted: Any, found: Any, *, quantity: bool = False) -> bool:
    """Whether every value that is wanted is there; the server may have added others."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and contained(value, found[key], quantity=quantity or key in _QUANTITIES)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _list_contained(wanted, found)
    if quantity:
        return _same_amount(str(wanted), str(found))
    return bool(wanted == found)


def amount(quantity: str) -> Decimal:
    """A Kubernetes quantity as a number, for the spellings that Penstock and the server use."""
    digits = quantity.rstrip("kMGTPim")
    return Decimal(digits) * _FACTORS[quantity[len(digits) :]]


def _same_amount(wanted: str, found: str) -> bool:
    """A user's pod template may spell a quantity as we never do, such as 1E."""
    try:
        return wanted == found or amount(wanted) == amount(found)
    except (KeyError, ArithmeticError):
        return False


def _list_contained(wanted: list[Any], found: list[Any]) -> bool:
    if wanted and all(isinstance(each, Mapping) and "name" in each for each in wanted):
        # Containers, variables, volumes: others may have added theirs.
        by_name = {each.get("name"): each for each in found if isinstance(each, Mapping)}
        return all(contained(each, by_name.get(each["name"])) for each in wanted)
    return len(wanted) == len(found) and all(
        contained(one, other) for one, other in zip(wanted, found, strict=True)
    )
