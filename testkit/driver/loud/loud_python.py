"""A data source in Python that says its options wherever it can."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

Options = MutableMapping[str, str]


def say(method: str, options: Options) -> None:
    text = f"{method} has {dict(options)}"
    print(text)
    print(text, file=sys.stderr)
    Path(options["heard"], method).write_text("\n".join(options.values()))
    if options.get("fails") == method:
        raise ValueError(text)


class Loud(DataSource):
    def schema(self) -> str:
        say("schema", self.options)
        return "value BIGINT"

    def simpleStreamReader(self, schema: Any) -> Reader:
        say("simpleStreamReader", self.options)
        return Reader(self.options)

    def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
        say("streamWriter", self.options)
        return Writer(self.options)


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, options: Options) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        say("read", self.options)
        end = {"next": start["next"] + 2}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["next"], end["next"])])


class Writer(DataSourceStreamWriter):
    def __init__(self, options: Options) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        say("write", self.options)
        list(iterator)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        say("commit", self.options)
