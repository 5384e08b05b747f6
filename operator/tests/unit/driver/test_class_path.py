"""The archive of classes works only with the class path that it was made with, and says nothing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from penstock.driver import jvm
from testkit.paths import CHECKOUT

_IMAGE = CHECKOUT / "images" / "spark"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    for name in ("zookeeper-3.jar", "spark-sql.jar", "avro-1.jar", "spark-core.jar", "a_b.jar"):
        (tmp_path / name).touch()
    return tmp_path


def test_driver_executors_and_archive_have_one_order(
    jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ":".join(map(str, jvm._jars(jars)))
    spec = importlib.util.spec_from_file_location("class_archive", _IMAGE / "class_archive.py")
    assert spec is not None
    assert spec.loader is not None
    archive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(archive)
    monkeypatch.setattr(archive, "JARS", jars)
    assert archive.class_path() == expected
    script = (_IMAGE / "entrypoint.sh").read_text()
    (found,) = re.findall(r"^jars=.*?^done$", script, re.DOTALL | re.MULTILINE)
    made = re.sub(r"^jars=.*$", f"jars={jars}", found, count=1, flags=re.MULTILINE)
    command = ["sh", "-c", f'{made}\nprintf %s "${{class_path#:}}"']
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout == expected
