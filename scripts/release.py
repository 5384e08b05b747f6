"""Builds and publishes a release: the wheel, the images, and the chart as an OCI artifact.

    python -m scripts.release images REGISTRY
    python -m scripts.release push REGISTRY [--plain-http]      # images and chart
    python -m scripts.release chart REGISTRY [--digest IMAGE=SHA256:...] [--plain-http]
    python -m scripts.release wheel FOLDER

The version is that of operator/penstock/__init__.py. REGISTRY is a host with a path, such as
registry.example/penstock: the images are REGISTRY/operator and REGISTRY/spark, and the chart is
oci://REGISTRY/charts/penstock.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from penstock import DISTRIBUTION, __version__
from penstock.local.tools.jars import DATA_SOURCE
from testkit.cluster.clients import installed
from testkit.commands import run
from testkit.engine.container_engine import engine
from testkit.errors import ClusterError
from testkit.images.penstock_images import build_as
from testkit.images.registry import registry_is_reachable
from testkit.kafka.jars import compile_connector, s3a_jars, spark_connector_jars
from testkit.paths import CHECKOUT
from testkit.tools import tool

IMAGES = ("operator", "spark")
NO_DIGESTS: Mapping[str, str] = MappingProxyType({})
_CHART = CHECKOUT / "charts" / "penstock"
_PUSH_SECONDS = 900


def image_refs(registry: str) -> dict[str, str]:
    return {name: f"{registry}/{name}:{__version__}" for name in IMAGES}


def build_images(registry: str) -> dict[str, str]:
    """Builds the images of the release under their published names, and returns these."""
    refs = image_refs(registry)
    for name, ref in refs.items():
        by_digest = registry_is_reachable()
        build_as(name, ref, base_by_digest=by_digest, VERSION=__version__, REVISION=_revision())
    return refs


def push_images(registry: str, *, plain_http: bool = False) -> None:
    """Pushes the images that `build_images` built."""
    # docker decides by the registry's address, and has no option for it.
    plain = ["--tls-verify=false"] if plain_http and engine().name == "podman" else []
    for ref in image_refs(registry).values():
        engine().run("push", *plain, ref, timeout=_PUSH_SECONDS)


def push_chart(
    registry: str,
    *,
    images: str = "",
    digests: Mapping[str, str] = NO_DIGESTS,
    plain_http: bool = False,
) -> str:
    """Packages the chart with the released images as its defaults; returns its address and digest.

    `images` is the registry as the cluster reaches it, where that differs.
    """
    helm, target = _helm(), f"oci://{registry}/charts"
    with tempfile.TemporaryDirectory() as folder:
        chart = chart_for(images or registry, Path(folder), digests)
        run([helm, "package", chart, "--destination", folder])
        (archive,) = Path(folder).glob("penstock-*.tgz")
        pushed = run([helm, "push", archive, target, *(["--plain-http"] if plain_http else [])])
    (digest,) = re.findall(r"^Digest: (sha256:[0-9a-f]{64})$", pushed, re.MULTILINE)
    return f"{target}/penstock@{digest}"


@cache
def _helm() -> Path:
    """This machine's helm, or a compiled one."""
    return installed("helm") or tool("helm")


def build_wheel(folder: Path) -> Path:
    """Builds the wheel, with the data source for Kafka in it."""
    compile_connector(DATA_SOURCE, spark_connector_jars(), s3a_jars())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    run([*command, folder, CHECKOUT], timeout=300)
    (wheel,) = folder.glob(f"{DISTRIBUTION.replace('-', '_')}-{__version__}-*.whl")
    return wheel


def chart_for(registry: str, folder: Path, digests: Mapping[str, str] = NO_DIGESTS) -> Path:
    """A copy of the chart, in the folder, whose defaults name the images in the registry.

    An image with a digest is named by it: whoever can move a tag changes no installation.
    """
    copy = shutil.copytree(_CHART, folder / "penstock")
    values = copy / "values.yaml"
    text = values.read_text()
    for name in IMAGES:
        unpublished = f" localhost/penstock/{name}"
        if unpublished not in text:
            raise ClusterError(f"values.yaml does not name the image{unpublished}")
        text = text.replace(unpublished, f" {registry}/{name}")
    if digest := digests.get("operator"):
        text = text.replace('\n  digest: ""', f"\n  digest: {digest}", 1)
    if digest := digests.get("spark"):
        spark = image_refs(registry)["spark"]
        text = text.replace(f" {spark}\n", f" {spark}@{digest}\n", 1)
    values.write_text(text)
    return copy


def _revision() -> str:
    return run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A problem is printed, and the exit code is 1."""
    given = _parser().parse_args(arguments)
    try:
        sys.stdout.writelines(f"{line}\n" for line in _run(given))
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("images", "push", "chart"):
        commands.add_parser(name).add_argument("registry")
    for name in ("push", "chart"):
        commands.choices[name].add_argument("--plain-http", action="store_true")
    commands.choices["chart"].add_argument(
        "--digest", action="append", default=[], type=_digest, metavar="IMAGE=SHA256:..."
    )
    commands.add_parser("wheel").add_argument("folder", type=Path)
    return parser


def _digest(word: str) -> tuple[str, str]:
    """The image and the digest in a word such as operator=sha256:..."""
    found = re.fullmatch(rf"({'|'.join(IMAGES)})=(sha256:[0-9a-f]{{64}})", word)
    if found is None:
        raise argparse.ArgumentTypeError(f"{word!r} is not IMAGE=sha256:..., with 64 hex digits")
    return found[1], found[2]


def _run(given: argparse.Namespace) -> Iterator[str]:
    """Runs the command, and tells what it published."""
    if given.command == "push":
        _helm()  # what is missing is said before minutes of building
    if given.command == "wheel":
        yield str(build_wheel(given.folder))
    if given.command in ("images", "push"):
        yield from build_images(given.registry).values()
    if given.command == "push":
        push_images(given.registry, plain_http=given.plain_http)
    if given.command == "push":
        yield push_chart(given.registry, plain_http=given.plain_http)
    if given.command == "chart":
        digests = dict(given.digest)
        yield push_chart(given.registry, digests=digests, plain_http=given.plain_http)


if __name__ == "__main__":
    sys.exit(main())
