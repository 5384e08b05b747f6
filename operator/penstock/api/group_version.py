"""Group, version and kind of the resource, and the longest name that one may have."""

from __future__ import annotations

from typing import Final

GROUP = "penstock.dev"
VERSION = "v1alpha1"
KIND: Final = "ContinuousStream"
PLURAL = "continuousstreams"
API_VERSION: Final = "penstock.dev/v1alpha1"

# The pods of a StatefulSet have the label controller-revision-hash, "<name>-<10 characters>", of at
# most 63 characters. "-driver" takes 7 of them.
MAX_NAME = 45
