"""Judges texts of tenants within bounds of time and memory, and remembers its verdicts.

The parsers run in processes of their own (`text_sandbox_process.py`), so that no text can stop or
bloat the process that asks. A verdict depends on the spec alone, and is kept by its hash.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import queue
import select
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache

from penstock.api.problem import NOT_JUDGED, Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.validation.text_sandbox_process import (
    MAX_CPU_SECONDS,
    MAX_DATA_BYTES,
    OUT_OF_MEMORY,
    problems_of_texts,
)

_WORKERS = 2
_MAX_VERDICTS = 4096
# Of all verdicts, which quote the texts.
_MAX_VERDICT_BYTES = 16 << 20
# The worker's limit counts processor time. This is for one that gets none, or waits.
_PATIENCE_SECONDS = 30.0
# -P: no module of the current folder may take the place of one of ours.
_COMMAND = (sys.executable, "-P", "-m", "penstock.validation.text_sandbox_process")
# How a worker ends that the same text would end again: by our limits, or in a parser's C code.
# (Pydantic's Rust aborts where Python raises MemoryError.)
_NO_MEMORY = (OUT_OF_MEMORY, -signal.SIGABRT)
_CERTAIN = (*_NO_MEMORY, -signal.SIGPROF, -signal.SIGSEGV)
# What a verdict depends on.
JUDGED_FIELDS = {
    "transform", "trigger", "output_mode", "source", "sink", "kafka", "image", "dependencies",
    "spark_conf",
}  # fmt: skip


class WorkerFailed(Exception):
    """A worker ended without an answer, or gave none in time; the message says why."""

    def __init__(self, message: str, *, certain: bool) -> None:
        super().__init__(message)
        self.certain = certain
        """Whether the same text will end the same way."""


def judge_texts(spec: StreamSpec) -> tuple[Problem, ...]:
    """The verdict on a spec's texts. Blocks for about a minute at most; call it from any thread."""
    return _judge().judge(spec) if _texts(spec) else problems_of_texts(spec)


def _texts(spec: StreamSpec) -> list[str]:
    """The fields with a text that may cost its reader dear."""
    kafka = spec.source.kafka
    texts = {
        "transform.sql": spec.transform.sql,
        "transform.python": spec.transform.python,
        "sink.python": spec.sink.python,
        "source.kafka.topicPattern": None if kafka is None else kafka.topic_pattern,
    }
    return [f"spec.{field}" for field, text in texts.items() if text is not None]


@cache
def _judge() -> Judge:
    judge = Judge()
    atexit.register(judge.close)
    return judge


class Judge:
    """A few worker processes, and the verdicts that they gave."""

    def __init__(self, workers: int = _WORKERS, command: Sequence[str] = _COMMAND) -> None:
        self._workers: queue.LifoQueue[Worker] = queue.LifoQueue()
        for _ in range(workers):
            self._workers.put(Worker(command))
        self._verdicts: OrderedDict[bytes, tuple[Problem, ...]] = OrderedDict()
        self._bytes = 0
        """Of the messages in all verdicts."""
        self._lock = threading.Lock()

    def judge(self, spec: StreamSpec) -> tuple[Problem, ...]:
        """The verdict on a spec's texts, from memory if they were judged before."""
        request = _request(spec)
        key = hashlib.sha256(request).digest()
        with self._lock:
            if key in self._verdicts:
                self._verdicts.move_to_end(key)
                return self._verdicts[key]
        worker = self._workers.get()
        try:
            verdict = _ask(worker, request)
        except WorkerFailed as failure:
            verdict = _not_judged(spec, failure)
            if not failure.certain:
                return verdict
        finally:
            self._workers.put(worker)
        with self._lock:
            self._bytes += _length(verdict) - _length(self._verdicts.get(key, ()))
            self._verdicts[key] = verdict
            while len(self._verdicts) > _MAX_VERDICTS or self._bytes > _MAX_VERDICT_BYTES:
                self._bytes -= _length(self._verdicts.popitem(last=False)[1])
        return verdict

    def close(self) -> None:
        """Ends the worker processes; the next question starts them again."""
        while True:
            try:
                self._workers.get_nowait().stop()
            except queue.Empty:
                return


class Worker:
    """One worker process, started when it is asked and again after it ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: bytes) -> tuple[Problem, ...]:
        """The worker's verdict. Raises WorkerFailed."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the answer is empty
            process.stdin.write(request + b"\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        line = process.stdout.readline() if ready else b""
        if line.endswith(b"\n"):
            return _verdict(line)
        if not ready:
            self.stop()
            raise WorkerFailed(f"gave no verdict within {_PATIENCE_SECONDS:.0f} s", certain=False)
        code = process.wait()
        self.stop()
        raise WorkerFailed(_why(code), certain=code in _CERTAIN)

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(BrokenPipeError), process:
            pass  # closes its pipes, with what it has not read, and waits

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process


def _ask(worker: Worker, request: bytes) -> tuple[Problem, ...]:
    """Asks twice if the first worker came to an end that has nothing to do with the text."""
    try:
        return worker.ask(request)
    except WorkerFailed as failure:
        if failure.certain:
            raise
    return worker.ask(request)


def _request(spec: StreamSpec) -> bytes:
    fields = spec.model_dump(mode="json", by_alias=True, include=JUDGED_FIELDS, exclude_unset=True)
    return json.dumps(fields, sort_keys=True).encode()


def _verdict(line: bytes) -> tuple[Problem, ...]:
    return tuple(Problem(**problem) for problem in json.loads(line))


def _length(verdict: tuple[Problem, ...]) -> int:
    return sum(len(problem.message) for problem in verdict)


def _why(code: int) -> str:
    if code in _NO_MEMORY:
        return f"needs more than {MAX_DATA_BYTES >> 20} MiB to be parsed"
    if code == -signal.SIGPROF:
        return f"needs more than {MAX_CPU_SECONDS:.0f} s of a processor to be parsed"
    return f"could not be judged (the parser's process ended with {code})"


def _not_judged(spec: StreamSpec, failure: WorkerFailed) -> tuple[Problem, ...]:
    texts = " or ".join(_texts(spec))
    message = f"{texts} {failure}. So Penstock does not judge it: the driver tries it"
    return (Problem(NOT_JUDGED, message, "notice", transient=not failure.certain),)
