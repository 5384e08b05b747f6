"""The process that judges texts for `text_sandbox.py`: a line of JSON in, a line of JSON out.

It reads what tenants wrote, with parsers that nobody made for that, so the kernel bounds it: a
request that takes too much processor time ends the process by SIGPROF, also within a parser; one
that takes too much memory gets a MemoryError. `text_sandbox.py` starts another process then.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
import warnings
from dataclasses import asdict

from penstock.api.problem import NOT_JUDGED, Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.judge import judge_sql
from penstock.validation.python_functions import judge_python
from penstock.validation.rules.kafka import judge_pattern

MAX_CPU_SECONDS = 2.0
"""For a request. The largest text within the bounds of `sql/statement.py` takes about half."""
MAX_DATA_BYTES = 192 << 20
"""Of the whole process; imports take about 50 MiB of it."""
OUT_OF_MEMORY = 3
"""The exit code after a MemoryError."""
# A parser of sqlglot takes about ten calls for one level; Python 3.11 needs no C stack for them.
_MAX_CALLS = 10_000


def problems_of_texts(spec: StreamSpec) -> tuple[Problem, ...]:
    """Judges the SQL, the Python and the topics' pattern of a spec, in this process. Raises only
    MemoryError.
    """
    return (*judge_sql(spec), *judge_python(spec), *judge_pattern(spec))


def main() -> None:
    """Answers requests until the standard input ends."""
    warnings.simplefilter("ignore")  # the Python of tenants may have any
    sys.setrecursionlimit(_MAX_CALLS)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA_BYTES, MAX_DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        try:
            answer = _answer(line)
        except (MemoryError, SystemError):  # the second from C code that has no memory left
            os._exit(OUT_OF_MEMORY)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _answer(line: bytes) -> str:
    spec = StreamSpec.model_validate_json(line)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    try:
        problems = problems_of_texts(spec)
    except (MemoryError, SystemError):
        raise
    except Exception as error:  # a bug of ours must not end as one more bomb
        traceback.print_exc()
        why = f"{type(error).__name__} in Penstock's own rules: the driver tries the stream"
        problems = (Problem(NOT_JUDGED, f"spec.transform: {why}", "notice"),)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return json.dumps([asdict(problem) for problem in problems])


if __name__ == "__main__":
    main()
