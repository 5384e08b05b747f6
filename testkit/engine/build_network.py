"""Lets image builds reach the package registries in the same way as this machine.

No registry is named here. If this machine trusts an extra certificate authority, or its clients'
settings name mirrors, the builds get the same settings, and no image contains them.
"""

import os
import re
import sys
from pathlib import Path

from testkit.commands import run
from testkit.engine.settings_file import write_settings
from testkit.errors import ClusterError

_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy")
_LOCAL_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_JAVA_TRUST = Path("/etc/ssl/certs/java/cacerts")
_CA_IN_BUILD = "/run/host/ca.crt"
_HOME_IN_BUILD = "/root"
_JAVA_TRUST_IN_BUILD = "/run/host/cacerts"


def extra_authorities() -> Path | None:
    """The bundle of certificate authorities, if this machine trusts more than the usual ones."""
    if not any(_LOCAL_CERTIFICATES.glob("**/*.crt")):
        return None
    named = [os.environ.get(name, "") for name in _BUNDLES]
    for candidate in [*named, "/etc/ssl/certs/ca-certificates.crt"]:
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    return None


def build_options(scratch: Path) -> list[str]:
    """Options of `podman build` that give its steps the network access of this machine.

    The files that they mount are written to `scratch`.
    """
    options = ["--network", "host"]
    authority = extra_authorities()
    if authority is not None:
        options += ["--volume", f"{authority}:{_CA_IN_BUILD}:ro"]
        if _JAVA_TRUST.is_file():
            options += ["--volume", f"{_JAVA_TRUST}:{_JAVA_TRUST_IN_BUILD}:ro"]
            options += ["--build-arg", f"MAVEN_OPTS={_maven_trust()}"]
    pip = scratch / "pip.conf"
    write_settings(pip, _pip_conf(authority is not None))
    options += ["--volume", f"{pip}:/etc/pip.conf:ro"]
    settings = Path.home() / ".m2" / "settings.xml"
    if settings.is_file():
        options += ["--volume", f"{settings}:{_HOME_IN_BUILD}/.m2/settings.xml:ro"]
    return options


def _maven_trust() -> str:
    return (
        f"-Djavax.net.ssl.trustStore={_JAVA_TRUST_IN_BUILD} "
        "-Djavax.net.ssl.trustStorePassword=changeit"
    )


def _pip_conf(with_authority: bool) -> str:
    try:
        listed = run([sys.executable, "-m", "pip", "config", "list"])
    except ClusterError:
        listed = ""  # a Python without pip has no settings for pip
    return pip_conf(listed, _CA_IN_BUILD if with_authority else None)


def pip_conf(listed: str, authority: str | None) -> str:
    """A pip.conf for builds, from the output of `pip config list` on this machine."""
    settings = dict(re.findall(r"^(?:global|:env:|install)\.([a-z-]+)='(.*)'$", listed, re.M))
    lines = ["[global]"]
    if authority:
        lines.append(f"cert = {authority}")
    lines += [f"{name} = {settings[name]}" for name in _PIP_SETTINGS if name in settings]
    return "\n".join(lines) + "\n"
