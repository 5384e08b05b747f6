"""Penstock deploys continuous Spark streams on Kubernetes and keeps them running."""

from typing import Final

__version__: Final = "0.1.0"
