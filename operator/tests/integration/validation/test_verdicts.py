"""The verdicts of `penstock validate` are those of a real API server (issue 9, show 4).

A wrong refusal is a manifest that only `validate` refuses and the table does not say why; a silent
pass is one that only the API server refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.validation.reading.yaml_document import InvalidYaml, compose
from testkit.errors import KubectlError
from testkit.kubernetes.api_server import ApiServer, api_server
from testkit.paths import CHECKOUT
from testkit.streams import manifest_table as table
from testkit.streams.bad_manifests import RING_2
from testkit.streams.streams import manifest


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server() as found:
        found.serve_streams()
        yield found


def by_kubectl(server: ApiServer, text: str) -> str | None:
    """Why kubectl or the API server refuses a text in a dry run; None if both accept it."""
    try:
        server.kube("default").run(
            "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text
        )
    except KubectlError as error:
        return str(error)
    return None


def refusal(server: ApiServer, text: str) -> str | None:
    """Why the API server refuses a manifest in a strict dry run; None if it accepts it."""
    return server.refusal(text)


def wrong(
    server: ApiServer,
    texts: dict[str, str],
    accepted: bool,
    judge: Callable[[ApiServer, str], str | None] = refusal,
) -> dict[str, str | None]:
    """The rows about which the API server does not say what the table says."""
    found = {name: judge(server, text) for name, text in texts.items()}
    return {name: why for name, why in found.items() if (why is None) != accepted}


def _texts(rows: list[table.Row]) -> dict[str, str]:
    return {table.label(row): json.dumps(table.resource(row)) for row in rows}


def test_the_api_server_gives_the_verdicts_of_the_table(server: ApiServer) -> None:
    """unit/validation/test_manifest_table.py compares the same rows with `penstock validate`.

    integration/api/test_admission.py has those of ring 1.
    """
    late = {str(bad): json.dumps(manifest("bad", bad.spec)) for bad in RING_2}
    assert wrong(server, _texts(table.ACCEPTED), accepted=True) == {}
    assert wrong(server, _texts(table.REFUSED), accepted=False) == {}
    late |= _texts([*table.REFUSED_LATER, *table.REFUSED_FOR_SAFETY])
    assert wrong(server, late, accepted=True) == {}


def test_kubectl_gives_the_verdicts_of_the_table_about_texts(server: ApiServer) -> None:
    """kubectl reads YAML itself, and sends JSON."""
    assert wrong(server, table.ACCEPTED_TEXTS, True, by_kubectl) == {}
    assert wrong(server, table.REFUSED_TEXTS, False, by_kubectl) == {}
    assert wrong(server, table.REFUSED_BY_VALIDATE, True, by_kubectl) == {}


def test_the_files_of_this_checkout_are_read_as_kubectl_reads_them(
    server: ApiServer, tmp_path: Path
) -> None:
    """A file with several documents: kubectl splits it, and the API server accepts each."""
    file = tmp_path / "all.yaml"
    examples = sorted((CHECKOUT / "examples").glob("*.yaml"))
    file.write_text("\n---\n".join(example.read_text() for example in examples))
    applied = server.kube("default").run("apply", "--dry-run=server", "-f", str(file))
    assert applied.count("created") >= len(examples)


# What YAML 1.1, YAML 1.2, PyYAML and Go read differently.
_TEXT = """
no on y n Y yes True NULL ~ 2024-01-01 2001-12-14t21:59:43.10-05:00 010 0o10 08 0x1F 0b11 1_000 1:30
1e3 1e9 1E3 1e+9 2.0 .5 5. 1e400 +5 -0 18446744073709551615 18446744073709551616 0.1 1e21 0x_1 = <<
123456789012345678901 -9223372036854775808 -1.5 0b2 0o8 09 1__0 +.5 -.5 1.e3 0xg 0X1F -0x1F +0b1 00
'5' "no" '' "2024-01-01" !!str&5 !!str !!float&3 !!int&'3' !!bool&no
1e-50 3.5e38 16777217.0 1234567.5 100000.0 1e6 0.00001 !!float&2 1e20 0.1 2.50 33333333.0 -1e9
yEs oN nUll _1 1_ 1e 1e+ -a . .. .e1 1.2.3 1,000 0.0 -0.0 100000000000000000000000 nil none N Off
"""
SCALARS = [each.replace("&", " ") for each in _TEXT.split()]
_NULLS = ["NULL", "~"]
# kubectl refuses it as a key, and writes a fraction in few digits there, which ours refuses.
_HUGE = "18446744073709551615"


def _is_float(text: str) -> bool:
    """Whether it is one as a plain value, before it becomes JSON."""
    try:
        compose(f"? {text}\n: 1")
    except InvalidYaml as error:
        return "fraction" in error.reason
    return False


def _same(ours: Any, theirs: Any) -> bool:
    if type(ours) is int and type(theirs) is int and ours not in range(-(2**63), 2**63):
        return float(ours) == float(theirs)  # kubectl prints those with the digits of a float
    return type(ours) is type(theirs) and bool(ours == theirs)


def test_scalars_and_keys_mean_what_kubectl_reads(server: ApiServer) -> None:
    """One document with all of them: as values, and as keys where one can be."""

    def by_both(data: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        lines = "".join(f"  {line}\n" for line in data)
        text = f"apiVersion: v1\nkind: Any\nmetadata: {{name: a}}\ndata:\n{lines}"
        read = server.kube().run("label", "--local", "-f", "-", "a=b", "-o", "json", stdin=text)
        tree = compose(text)
        assert tree is not None
        return tree.content["data"], json.loads(read)["data"]

    names = [each for each in SCALARS if each not in (*_NULLS, _HUGE, "<<") and not _is_float(each)]
    values = [f"v{number}: {each}" for number, each in enumerate(SCALARS)]
    keys = [f"k{number}: {{? {each} : 1}}" for number, each in enumerate(names)]
    ours, theirs = by_both([*values, *keys])
    assert {
        each: (ours[name], theirs[name])
        for name, each in zip(ours, [*SCALARS, *names], strict=True)
        if not _same(ours[name], theirs[name])
    } == {}
    for key in _NULLS:
        with pytest.raises(KubectlError, match="map key"):
            by_both([f"? {key}\n  : 1"])
        with pytest.raises(InvalidYaml, match="a key cannot be"):
            compose(f"? {key}\n: 1")
