"""Jars from a Maven repository, by the resolver inside Spark; the repository is on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.command_line import CommandError
from penstock.local.tools import jars
from testkit.kafka.broker import free_ports

_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="here"/>
  <resolvers><ibiblio name="here" m2compatible="true" root="{url}"/></resolvers>
</ivysettings>
"""


def test_a_repository_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/maven2"
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(_IVY_SETTINGS.format(url=url))
    conf = {"spark.jars.ivySettings": str(settings)}
    with pytest.raises(CommandError) as raised:
        jars.jar_folder(jars.CONNECTOR, conf, lambda _: None, {"XDG_CACHE_HOME": str(tmp_path)})
    said = str(raised.value)
    assert url in said
    assert "unresolved dependency: org.apache.kafka#kafka-clients" in said
    assert "Traceback" not in said
