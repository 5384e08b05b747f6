"""What people write: the spec of a ContinuousStream.

Defaults live here and not in the CRD's schema, so that what is applied is what is stored and a
GitOps tool sees no drift; each default stands in its field's description.
"""

from penstock.stream.spec.stream import StreamSpec

__all__ = ["StreamSpec"]
