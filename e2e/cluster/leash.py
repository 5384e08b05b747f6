"""Processes that never outlive the one that started them: the package's own."""

from penstock.local.leash import Leashed

__all__ = ["Leashed"]
