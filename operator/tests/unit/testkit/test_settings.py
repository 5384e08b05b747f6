"""The settings of kind and of image builds, and the pinned versions."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from testkit.cli import main
from testkit.cluster.kind_config import SHARED_VOLUMES, kind_config
from testkit.engine.build_network import pip_conf
from testkit.engine.container_engine import without_tag
from testkit.engine.settings_file import write_settings
from testkit.images.penstock_images import image_names, image_ref
from testkit.images.program_image import write_archive
from testkit.tools.pins import go_modules, go_tools


def test_builds_use_the_mirrors_and_the_certificate_authority_of_this_machine() -> None:
    listed = "global.index-url='https://mirror.example/simple'\n:env:.default-timeout='180'\n"
    assert pip_conf(listed, "/run/ca.crt").splitlines() == [
        "[global]",
        "cert = /run/ca.crt",
        "index-url = https://mirror.example/simple",
    ]


def test_builds_need_no_setting_if_pip_has_none() -> None:
    assert pip_conf("", None) == "[global]\n"


def test_an_equal_settings_file_stays_because_a_build_may_mount_it(tmp_path: Path) -> None:
    path = tmp_path / "pip.conf"
    with ThreadPoolExecutor(8) as builds:
        files = set(builds.map(lambda _: _written(path, "[global]\n"), range(64)))
    assert len(files) == 1
    assert _written(path, "[global]\ncert = a\n") not in files
    assert path.read_text() == "[global]\ncert = a\n"
    assert list(tmp_path.iterdir()) == [path]


def _written(path: Path, text: str) -> int:
    """Writes the file; returns the number of the inode, which is mounted."""
    write_settings(path, text)
    return path.stat().st_ino


@pytest.mark.parametrize(
    ("ref", "taken"),
    [
        ("docker.io/kindest/node:v1.37.0@sha256:a1", "docker.io/kindest/node@sha256:a1"),
        ("docker.io/kindest/node@sha256:a1", "docker.io/kindest/node@sha256:a1"),
        ("docker.io/kindest/node:v1.37.0", "docker.io/kindest/node:v1.37.0"),
        ("mirror:5000/node@sha256:a1", "mirror:5000/node@sha256:a1"),
        ("mirror:5000/node:v1@sha256:a1", "mirror:5000/node@sha256:a1"),
    ],
)
def test_the_registry_is_asked_by_digest_or_by_tag(ref: str, taken: str) -> None:
    assert without_tag(ref) == taken


@pytest.mark.parametrize("nodes", [1, 3])
def test_every_node_gets_the_resolver_that_does_not_exist(nodes: int) -> None:
    for own_image in (True, False):
        config = yaml.safe_load(kind_config(nodes, Path("resolv.conf"), Path("shared"), own_image))
        assert [node["role"] for node in config["nodes"]].count("control-plane") == 1
        assert len(config["nodes"]) == nodes
        for node in config["nodes"]:
            mounts = [mount["containerPath"] for mount in node["extraMounts"]]
            assert mounts == ["/kind/pod-resolv.conf", SHARED_VOLUMES]
        assert "resolvConf: /kind/pod-resolv.conf" in config["kubeadmConfigPatches"][0]


def test_a_cluster_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        kind_config(0, Path("resolv.conf"), Path("shared"))


def test_every_tool_is_pinned_to_one_version() -> None:
    assert all(version.startswith("v") for version in go_modules().values())
    for tool in go_tools().values():
        modules = [tool.alone.path] if tool.alone else go_modules()
        pinned = [module for module in modules if tool.package.startswith(module)]
        assert len(pinned) == (0 if tool.source else 1), tool


def test_a_tool_that_is_compiled_alone_changes_no_other() -> None:
    """The key of every other tool is a hash of the modules that these share."""
    alone = {tool.alone.path for tool in go_tools().values() if tool.alone}
    assert alone
    assert alone.isdisjoint(go_modules())


def test_images_are_named_by_content() -> None:
    refs = {name: image_ref(name) for name in image_names()}
    assert refs == {name: image_ref(name) for name in image_names()}
    for name, ref in refs.items():
        assert ref.startswith(f"localhost/penstock/{name}:")


def test_equal_programs_give_an_equal_archive(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"x")
    digests = set()
    for name in ("one.tar", "two.tar"):
        write_archive(tmp_path / name, {"localhost/x:1": (program, "/usr/bin/program")})
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_an_unknown_image_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["images", "nonsense"]) == 1
    assert "known: operator, spark, kafka" in capsys.readouterr().err
