"""The proxies that the environment names, as options of a JVM: Java ignores the variables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

_DEFAULT_PORT = 80
# Java's default without IPv6's zero address; setting the property replaces it.
_LOOPBACK = ("localhost", "127.*", "[::1]", "0.0.0.0")  # noqa: S104


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
            options[f"-D{scheme}.proxyPort"] = str(proxy.port or _DEFAULT_PORT)
    if options:
        direct = dict.fromkeys([*_LOOPBACK, *_direct(_variable(environment, "no_proxy"))])
        options["-Dhttp.nonProxyHosts"] = "|".join(direct)
    given = {word.partition("=")[0] for word in environment.get("JAVA_TOOL_OPTIONS", "").split()}
    return tuple(f"{name}={value}" for name, value in options.items() if name not in given)


def needs_password(environment: Mapping[str, str]) -> bool:
    """Whether a proxy's URL has a user, whom Java does not take from there."""
    proxies = [_proxy(environment, scheme) for scheme in ("http", "https")]
    return any(each is not None and each.username for each in proxies)


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
