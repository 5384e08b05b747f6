"""The tests in connector/test, which are in Java: compiled, and run with the data source itself."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from testkit import system_packages
from testkit.kafka.jars import CONNECTOR, class_path_with, connector_jars, maven_jars
from testkit.plugins.figures import RecordFigure

TESTS = CONNECTOR / "test"
JUNIT = "org.junit.platform.console.ConsoleLauncher"


def test_the_tests_of_the_connector(tmp_path: Path, record_figure: RecordFigure) -> None:
    system_packages.require("javac")
    junit = maven_jars("connector-test", TESTS / "pom.xml")
    class_path = f"{class_path_with(connector_jars(), junit)}:{tmp_path / 'classes'}"
    lint = ["-Xlint:all,-classfile,-path,-processing,-serial", "-Werror", "--release", "17"]
    to = ["-cp", class_path, "-d", str(tmp_path / "classes")]
    sources = sorted(map(str, TESTS.rglob("*.java")))
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
    assert set(ran) == {f"dev.penstock.spark.{Path(source).stem}" for source in sources}
    record_figure("tests in Java", ran.total())
