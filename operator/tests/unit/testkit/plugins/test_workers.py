"""Worker processes share a run so that no two of them use one cluster or repeat a fixture."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from testkit.plugins.child_session import run_pytest
from testkit.plugins.workers import NICENESS

NAME_THE_WORKER = """
import os, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number, record_figure):
    record_figure("process", os.getpid())
    record_figure("niceness", os.nice(0))
"""
FILES = ["e2e/test_a.py", "e2e/chaos/test_b.py", "tests/test_c.py", "tests/test_d.py"]


def test_a_file_and_the_whole_cluster_stay_on_one_worker(tmp_path: Path) -> None:
    """Each test prints figures, which the workers send to the terminal."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = e2e tests\n")
    (tmp_path / "conftest.py").write_text(
        "from testkit.plugins.figures import Figures\n"
        "from testkit.plugins.workers import Workers\n\n\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Figures())\n"
        "    config.pluginmanager.register(Workers())\n"
    )
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        # A name of its own for each file's test, because a figure's line has no file.
        text = NAME_THE_WORKER.replace("test_it", Path(file).stem)
        (tmp_path / file).write_text(text)
    done = run_pytest(tmp_path, "-n", "2")
    assert "16 passed" in done.stdout, done.stdout + done.stderr
    processes = _figures(done.stdout, "process")
    assert [len(each) for each in processes.values()] == [1, 1, 1, 1]
    assert processes["test_a"] == processes["test_b"] != processes["test_c"] | processes["test_d"]
    ours = os.nice(0)
    others = {str(min(ours + NICENESS, 19))}
    assert _figures(done.stdout, "niceness") == {
        "test_a": {str(ours)}, "test_b": {str(ours)}, "test_c": others, "test_d": others,
    }  # fmt: skip


def _figures(output: str, name: str) -> dict[str, set[str]]:
    """The values of a figure, by test."""
    found = defaultdict(set)
    for line in output.splitlines():
        if f": {name}: " in line:
            found[line.partition("[")[0]].add(line.rpartition(" ")[2])
    return dict(found)
