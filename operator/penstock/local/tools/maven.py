"""Resolves Maven coordinates to jars in a folder, with the resolver inside Spark.

Runs as a process of its own, because the resolver prints a lot and pyspark has one JVM per process:
`python -m penstock.local.tools.maven --ivy FOLDER FOLDER COORDINATE...`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from penstock.driver.jvm import Jvm, fast_start_options

_HEAP_MEBIBYTES = 512
# Spark excludes Scala from what it resolves, since it has it (MavenUtils.addExclusionRules).
_SCALA = "scala-library-*.jar"
_DEFAULT_PROXY_PORT = 80
# Java's default without IPv6's zero address; setting the property replaces it.
_LOOPBACK = ("localhost", "127.*", "[::1]", "0.0.0.0")  # noqa: S104


def main() -> int:
    """Copies the jars to the folder; exits with Spark's message, which names what is missing."""
    from py4j.protocol import Py4JJavaError

    parser = argparse.ArgumentParser(prog="penstock.local.tools.maven", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ivy", type=Path, required=True, help="for what Ivy downloads")
    parser.add_argument("coordinates", nargs="+")
    parser.add_argument("--transitive", action="store_true")
    parser.add_argument("--repositories")
    parser.add_argument("--ivy-settings")
    options = parser.parse_args()
    java_options = fast_start_options(proxy_options(os.environ), _HEAP_MEBIBYTES, cores=0)
    jvm = Jvm.launch(_HEAP_MEBIBYTES, "", "127.0.0.1", java_options)
    try:
        for jar in _resolve(jvm.gateway, options):
            shutil.copy(jar, options.folder)
    except Py4JJavaError as error:
        # The JVM has the text of the exception, and it ends here.
        sys.exit(str(error.java_exception.getMessage()))
    finally:
        jvm.end()
    if options.transitive:
        _add_scala(options.folder)
    return 0


def _resolve(gateway: Any, options: argparse.Namespace) -> list[Path]:
    jvm = gateway.jvm
    jars = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
        options.transitive,
        None,
        ",".join(options.coordinates),
        options.repositories,
        str(options.ivy),
        jvm.scala.Option.apply(options.ivy_settings),
    )
    return [Path(jars.apply(index)) for index in range(jars.length())]


def _add_scala(folder: Path) -> None:
    import pyspark

    for jar in (Path(pyspark.__file__).parent / "jars").glob(_SCALA):
        shutil.copy(jar, folder)


def proxy_options(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The JVM's options for HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in either case.

    A property that JAVA_TOOL_OPTIONS sets is left to it. User and password are left out: no
    property takes them.
    """
    options: dict[str, str] = {}
    for scheme in ("http", "https"):
        proxy = _proxy(environment, scheme)
        if proxy is not None and proxy.hostname:
            options[f"-D{scheme}.proxyHost"] = proxy.hostname
            options[f"-D{scheme}.proxyPort"] = str(proxy.port or _DEFAULT_PROXY_PORT)
    if options:
        direct = dict.fromkeys([*_LOOPBACK, *_direct(_variable(environment, "no_proxy"))])
        options["-Dhttp.nonProxyHosts"] = "|".join(direct)
    given = {word.partition("=")[0] for word in environment.get("JAVA_TOOL_OPTIONS", "").split()}
    return tuple(f"{name}={value}" for name, value in options.items() if name not in given)


def needs_password(environment: Mapping[str, str]) -> bool:
    """Whether a proxy's URL has a user, whom Java does not take from there."""
    proxies = [_proxy(environment, scheme) for scheme in ("http", "https")]
    return any(proxy is not None and proxy.username for proxy in proxies)


def _proxy(environment: Mapping[str, str], scheme: str) -> SplitResult | None:
    """The URL of the proxy for the scheme; None without one, and for SOCKS and mistakes."""
    text = _variable(environment, f"{scheme}_proxy") or _variable(environment, "all_proxy")
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        is_proxy = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, or half an IPv6 address
        return None
    return url if is_proxy else None


def _variable(environment: Mapping[str, str], name: str) -> str:
    """In lower case first, as curl and pip read them."""
    return (environment.get(name) or environment.get(name.upper(), "")).strip()


def _direct(no_proxy: str) -> Iterator[str]:
    """Java's patterns for a list such as `.example.com,host:8080,*`; it has none for networks."""
    for word in no_proxy.split(","):
        entry = word.strip()
        host = entry if entry.startswith("[") or entry.count(":") != 1 else entry.partition(":")[0]
        name = host.removeprefix("*").removeprefix(".")
        if host == "*":
            yield "*"
        elif name and "/" not in name:
            # As curl: a name stands for the names below it too.
            yield from (name, f"*.{name}")


if __name__ == "__main__":
    sys.exit(main())
