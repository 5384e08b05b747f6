"""Penstock deploys continuous Spark streams on Kubernetes and keeps them running."""

from typing import Final

__version__: Final = "0.1.0"

DISTRIBUTION: Final = "penstock-streams"
"""The package's name on PyPI, where `penstock` is somebody else's project."""


def how_to_install(extra: str) -> str:
    """The words that tell a user how to get what an extra of the package brings."""
    return f"install {DISTRIBUTION}[{extra}] (in a checkout: pip install '.[{extra}]')"
