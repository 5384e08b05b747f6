"""Which of this machine's own tools the cluster uses."""

import pytest

from testkit.tools.installed import fits, installed

NODE = "docker.io/kindest/node:v1.37.0@sha256:a1ed"


@pytest.mark.parametrize(
    ("name", "said", "expected"),
    [
        ("kubectl", "Client Version: v1.36.2\nKustomize Version: v5.7.1\n", True),
        ("kubectl", "Client Version: v1.38.0\n", True),
        ("kubectl", "Client Version: v1.35.9\n", False),
        ("kind", "kind v0.33.0 go1.26.1 linux/amd64\n", True),
        ("kind", "kind v0.20.0 go1.20 linux/amd64\n", False),
        ("helm", "v3.19.0+g3d8990f\n", True),
        ("helm", "v4.3.1+gabcdef0\n", True),
        ("helm", "v3.9.0+g7ceeda6\n", False),
        ("helm", "flag provided but not defined\n", False),
    ],
)
def test_a_tool_is_used_if_its_version_fits(name: str, said: str, expected: bool) -> None:
    assert fits(name, said, NODE) is expected


def test_a_tool_that_runs_in_the_node_is_never_this_machines() -> None:
    assert installed("sh") is None
