"""`penstock test`."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import WRONG_USAGE, CommandError, files, option
from penstock.driver import logs
from penstock.local.cases.bench import Bench, Folders, open_bench
from penstock.local.cases.case_file import Case, CaseFile, ModeName, is_case_file, read_cases
from penstock.local.cases.stream_of_case import READS_NO_TOPIC, NotTestable, modes_to_run, prepare
from penstock.local.cases.verdicts import Verdict, as_junit, as_text, summary
from penstock.local.command import use_utc
from penstock.local.errors import print_message, refusing
from penstock.local.kafka.broker import BrokerError
from penstock.local.manifest import load_stream, require_files
from penstock.local.options import ClassPath, ConfigMaps, RunOptions, Secrets
from penstock.local.workspace import FOLDER, hide_from_git, short_path
from penstock.validation.reading.files import UnreadableFile, expand, read_file
from penstock.validation.report import as_text as finding_as_text


def run_cases(
    paths: Annotated[list[str], files("a file of cases, a folder, or a pattern", "PATH")],
    /,
    *,
    junit: Annotated[Path | None, option("write the results into this file, as JUnit XML")] = None,
    only: Annotated[str, option("run only the cases whose name contains this", "TEXT")] = "",
    class_path: ClassPath = "",
    config_maps: ConfigMaps = RunOptions.config_maps,
    secrets: Secrets = RunOptions.secrets,
) -> int:
    """Run the cases of streams: records in, and what must come of them.

    The stream runs as in a pod, in each mode that a case names, with a Kafka broker on this machine
    that ends with the command. Of a folder, the files with the fields stream and cases are taken.
    Requires what penstock run requires.

    examples:
      # All cases of a folder, with a report for CI
      penstock test tests/ --junit results.xml

      # One of them
      penstock test tests/fraud-flags.yaml --only 'large payment'

    exit codes:
      0  all cases have passed
      1  a case has failed
      2  wrong usage, a file is not valid, or something is missing on this machine
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    use_utc()
    began = time.monotonic()
    if junit is not None:
        with refusing(junit, "choose another --junit"):
            junit.write_bytes(as_junit([]))
    chosen = list(_chosen(_case_files(paths), only))
    if not chosen:
        raise CommandError(f"no case has {only!r} in its name", WRONG_USAGE)
    _check_files(chosen, secrets, config_maps)
    hide_from_git()
    log = (FOLDER / "test.log").absolute()
    log.unlink(missing_ok=True)
    verdicts = list[Verdict]()
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder, log.open("a") as lines:
        logs.set_up(lines)
        logging.captureWarnings(capture=True)
        print_message("starting Kafka and Spark")
        folders = Folders(Path(folder), log, class_path, config_maps, secrets)
        try:
            with open_bench(folders, chosen[0].stream) as bench:
                for it in chosen:
                    verdicts.append(it.run(bench))
                    _print(as_text(verdicts[-1]))
        except BrokerError as error:
            raise CommandError(str(error), code=2) from error
        finally:
            _print(summary(verdicts, time.monotonic() - began))
            if junit is not None:
                junit.write_bytes(as_junit(verdicts))
    if all(it.passed for it in verdicts):
        return 0
    print_message(f"what the driver and Spark say is in {short_path(log)}")
    return 1


# Before there is one.
_ANY_BROKER = "localhost:9092"


@dataclass(frozen=True)
class _ChosenCase:
    """A case in one mode."""

    file: CaseFile
    stream: ContinuousStream
    case: Case
    mode: ModeName

    def run(self, bench: Bench) -> Verdict:
        outcome = bench.run(self.file, self.case, self.stream, self.mode)
        line = self.file.line(self.case)
        return Verdict(str(self.file.path), line, self.case.name, self.mode, outcome)


def _case_files(paths: list[str]) -> list[CaseFile]:
    """The files; raises CommandError with everything that is wrong with them."""
    found, wrong, named = list[CaseFile](), list[str](), set(map(Path, paths))
    for name, path in expand(paths):
        try:
            if isinstance(path, UnreadableFile):
                raise path
            data = read_file(path)
        except UnreadableFile as error:
            wrong.append(f"{name}: {error}")
            continue
        if path not in named and not is_case_file(data):
            continue
        read = read_cases(path, data)
        if isinstance(read, CaseFile):
            found.append(read)
        else:
            wrong += map(finding_as_text, read)
    if wrong:
        raise CommandError("\n".join(wrong), WRONG_USAGE)
    if not found:
        raise CommandError("no file of cases: write the fields stream and cases", WRONG_USAGE)
    return found


def _check_files(chosen: list[_ChosenCase], secrets: Path, config_maps: Path) -> None:
    """Raises CommandError if a stream that is to run lacks a file of the user's."""
    for it in chosen:
        # What prevents one mode is the outcome of its case.
        with contextlib.suppress(NotTestable):
            run = prepare(it.stream, it.mode, _ANY_BROKER, it.file.cases.paths)
            try:
                require_files(run.stream.spec, secrets, config_maps)
            except CommandError as error:
                raise CommandError(f"{it.file.path}: {error}", error.code) from error


def _chosen(files: list[CaseFile], only: str) -> Iterator[_ChosenCase]:
    for file in files:
        try:
            stream, _ = load_stream(file.beside(file.cases.stream))
        except CommandError as error:
            raise CommandError(f"{file.path}: stream: {error}", WRONG_USAGE) from error
        if stream.spec.source.kafka is None:
            why = f"{file.path}: {stream.metadata.name} {READS_NO_TOPIC}"
            raise CommandError(why, WRONG_USAGE)
        for case in file.cases.cases:
            if only in case.name:
                for mode in modes_to_run(stream.spec, case):
                    yield _ChosenCase(file, stream, case, mode)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
