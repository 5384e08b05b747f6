"""Values that look like credentials where everyone can read them. Pure.

The spec is in the resource, in a ConfigMap and in the pods, which people read who may not read
Secrets. Kafka's options are refused by the models. Of what is here nobody knows whether it is one,
so it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.api.problem import Problem
from penstock.api.reserved_spark_conf import takes_secret
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.driver_and_executor import Driver, Executor
from penstock.validation.rules.pod_security import mappings

# The end of a name: DB_PASSWORD, fs.s3a.secret.key, AWS_SECRET_ACCESS_KEY, apiKey, SASL_TOKEN...,
# es.net.http.auth.pass; or the keys of Azure, which end with the account's host.
_CREDENTIAL = re.compile(
    r"(passwd|password|passphrase|secret|token|credentials?|[._-]pass|[._-]pwd"
    r"|(secret|access|account|private|api)[._-]?key)$"
    r"|^(spark\.hadoop\.)?fs\.azure\.(account\.key|sas(\.fixed\.token)?)\.",
    re.IGNORECASE,
)
# A login behind the :// of a URL: https://user:password@host, mongodb://user:password@host/db
_LOGIN = re.compile(r"[^/@:\s]*:[^/@\s]+@")
# A credential in the query of a URL, or among its properties: ?user=u&password=p, ;password=p, and
# the signature of a shared access key of Azure.
_IN_QUERY = re.compile(
    r"[?&;](password|passwd|pwd|secret|token|access_?key|secret_?key|sig|signature|x-amz-signature)"
    r"=[^&;\s]",
    re.IGNORECASE,
)


def find_problems(spec: StreamSpec) -> list[Problem]:
    """A warning for each place of a spec that holds what looks like a credential."""
    return [
        Problem(
            "PlainCredential",
            f"{place} looks like a credential, and is readable in the resource and in a ConfigMap: "
            f"{_instead(place)}",
            "warning",
        )
        for place in _places(spec)
    ]


def _instead(place: str) -> str:
    field = place.partition(":")[0]
    if field.endswith(".custom.options"):
        return (
            f"use {field.removesuffix('options')}secretOptions, or for files spec.secretSparkConf"
        )
    name = place.rpartition(" ")[2]
    if field == "spec.sparkConf" and takes_secret(name):
        return "use spec.secretSparkConf"
    return (
        "provide it from a Secret in podTemplate (a volume, or env with valueFrom), if what reads "
        "it can take it from there"
    )


def _places(spec: StreamSpec) -> Iterator[str]:
    """As "field: name"."""
    for path, options in _maps(spec).items():
        for name, value in options.items():
            if _CREDENTIAL.search(name):
                yield f"{path}: {name}"
            elif _in_url(value):
                yield f"{path}: the login in {name}"
    for field, pod in (("driver", spec.driver), ("executor", spec.executor)):
        yield from _in_java_options(f"spec.{field}.javaOptions", pod)
        yield from _in_template(f"spec.{field}.podTemplate", pod.pod_template)
    for number, url in enumerate(spec.dependencies.jars):
        if _in_url(url):
            yield f"spec.dependencies.jars[{number}]: the login in the URL"


def _in_url(value: str) -> bool:
    """Whether a text has a URL with a credential in it."""
    has_login = any(_LOGIN.match(rest) for rest in value.split("://")[1:])
    return has_login or _IN_QUERY.search(value) is not None


def _maps(spec: StreamSpec) -> dict[str, Mapping[str, str]]:
    maps: dict[str, Mapping[str, str]] = {"spec.sparkConf": spec.spark_conf}
    if spec.source.custom is not None:
        maps["spec.source.custom.options"] = spec.source.custom.options
    if spec.sink.custom is not None:
        maps["spec.sink.custom.options"] = spec.sink.custom.options
    if spec.sink.python is not None:
        maps["spec.sink.python.options"] = spec.sink.python.options
    return maps


def _in_java_options(path: str, pod: Driver | Executor) -> Iterator[str]:
    for option in pod.java_options:
        for each in option.split():
            name, _, value = each.removeprefix("-D").partition("=")
            if each.startswith("-D") and value and (_CREDENTIAL.search(name) or _in_url(value)):
                yield f"{path}: {name}"


def _in_template(path: str, template: Mapping[str, Any]) -> Iterator[str]:
    """Plain values in the environment of any container; a reference (valueFrom) is none."""
    spec = template.get("spec")
    for kind in ("initContainers", "containers"):
        for container in mappings(spec.get(kind) if isinstance(spec, Mapping) else None):
            for variable in mappings(container.get("env")):
                name = str(variable.get("name", ""))
                value = str(variable.get("value") or "")
                if value and (_CREDENTIAL.search(name) or _in_url(value)):
                    yield f"{path}: spec.{kind}[{container.get('name', '')}].env: {name}"
