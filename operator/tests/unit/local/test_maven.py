"""The proxies of the environment as Java's properties."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.local import command
from penstock.local.tools import maven
from penstock.local.tools.maven import needs_password, proxy_options
from testkit.streams.streams import stream

_ALWAYS = "-Dhttp.nonProxyHosts=localhost|127.*|[::1]|0.0.0.0"
_HTTPS = ("-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128")


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, ()),
        ({"HTTPS_PROXY": ""}, ()),
        ({"HTTPS_PROXY": "http://proxy:3128"}, (*_HTTPS, _ALWAYS)),
        ({"https_proxy": "proxy:3128/", "HTTPS_PROXY": "http://other"}, (*_HTTPS, _ALWAYS)),
        ({"HTTPS_PROXY": "http://me:p%40ss@proxy:3128"}, (*_HTTPS, _ALWAYS)),
        (
            {"HTTP_PROXY": "http://proxy"},
            ("-Dhttp.proxyHost=proxy", "-Dhttp.proxyPort=80", _ALWAYS),
        ),
        (
            {"ALL_PROXY": "http://proxy:3128", "HTTP_PROXY": "http://[fd00::1]:8080"},
            ("-Dhttp.proxyHost=fd00::1", "-Dhttp.proxyPort=8080", *_HTTPS, _ALWAYS),
        ),
        ({"HTTPS_PROXY": "http://proxy:port"}, ()),
        ({"HTTPS_PROXY": "http://[::1"}, ()),
        ({"ALL_PROXY": "socks5://proxy:1080"}, ()),
        ({"NO_PROXY": "here"}, ()),
        (
            {
                "HTTPS_PROXY": "http://proxy:3128",
                "NO_PROXY": "localhost, .corp.example,*.lan,mvn:8081,10.0.0.0/8,[fd00::2],,",
            },
            (
                *_HTTPS,
                f"{_ALWAYS}|*.localhost|corp.example|*.corp.example|lan|*.lan|mvn|*.mvn"
                "|[fd00::2]|*.[fd00::2]",
            ),
        ),
        (
            {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "*"},
            (*_HTTPS, f"{_ALWAYS}|*"),
        ),
        (
            {
                "HTTPS_PROXY": "http://proxy:3128",
                "JAVA_TOOL_OPTIONS": "-Xmx1g -Dhttps.proxyHost=mine -Dhttps.proxyPort=1",
            },
            (_ALWAYS,),
        ),
    ],
)  # fmt: skip
def test_the_options_for_an_environment(
    environment: dict[str, str], options: tuple[str, ...]
) -> None:
    assert proxy_options(environment) == options


def test_a_proxy_with_a_password() -> None:
    assert needs_password({"HTTPS_PROXY": "http://me:word@proxy:3128"})
    assert not needs_password({"HTTPS_PROXY": "http://proxy:3128"})
    assert not needs_password({})


def test_the_resolver_starts_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Started(Exception):
        """Ends the test before a JVM starts."""

    def launch(*given: Any) -> None:
        raise Started(given[3])

    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setattr(sys, "argv", ["maven", "folder", "--ivy", "ivy", "a:b:1"])
    monkeypatch.setattr(maven, "Jvm", SimpleNamespace(launch=launch))
    with pytest.raises(Started) as started:
        maven.main()
    assert set(_HTTPS) <= set(started.value.args[0])


def test_the_driver_starts_with_them_if_it_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream's own jars."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    spec = stream(dependencies={"packages": ["a:b:1"]}).spec
    assert set(_HTTPS) <= set(command._proxies_for_dependencies(spec))
    assert command._proxies_for_dependencies(stream().spec) == ()
