"""Format and options of a data source that the spec names itself: source.custom, sink.custom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.api.v1alpha1.base import KeyRef
from penstock.api.v1alpha1.sinks import CustomSink
from penstock.api.v1alpha1.sources import CustomSource
from penstock.driver.secret_values import file_of

# Options of SecretOptions.java.
FILES_OPTION = "penstock.secretFiles"
_FORMAT_OPTION = "penstock.format"
_PACKAGE = "dev.penstock.spark.secrets"


def custom_source(source: CustomSource, secrets: Path) -> tuple[str, dict[str, str]]:
    """Those of a source; `secrets` is the Secrets' mount point."""
    java = f"{_PACKAGE}.SourceWithSecrets"
    return _with_secrets(source.format, source.options, source.secret_options, java, secrets)


def custom_sink(sink: CustomSink, secrets: Path) -> tuple[str, dict[str, str]]:
    """Those of a sink; `secrets` is the Secrets' mount point."""
    java = f"{_PACKAGE}.SinkWithSecrets"
    return _with_secrets(sink.format, sink.options, sink.secret_options, java, secrets)


def is_python(format_: str) -> bool:
    """`module:Class` is a data source written in Python; a Java class has no colon in its name."""
    return ":" in format_


def _with_secrets(
    format_: str,
    options: Mapping[str, str],
    secret_options: Mapping[str, KeyRef],
    java: str,
    secrets: Path,
) -> tuple[str, dict[str, str]]:
    """If there are secret options, Spark gets the paths of their files. The class `java`, or a
    subclass of one in Python (user_python.py), has the values.
    """
    if not secret_options:
        return format_, dict(options)
    files = {name: str(file_of(ref, secrets)) for name, ref in secret_options.items()}
    given = {**options, FILES_OPTION: json.dumps(files)}
    return (format_, given) if is_python(format_) else (java, {**given, _FORMAT_OPTION: format_})
