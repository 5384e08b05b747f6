"""A java command that only states its version, for tests of which Java is taken."""

from __future__ import annotations

from pathlib import Path


def fake_java(home: Path, version: str) -> Path:
    """Creates it below a new JAVA_HOME, and returns its path."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'java version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    return binary
