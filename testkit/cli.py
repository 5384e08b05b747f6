"""The commands prepare, up, down, images, load, tools and doctor."""

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from testkit import doctor
from testkit.cluster.clients import CLIENTS, missing_clients
from testkit.cluster.kind_cluster import ensure_cluster, remove_cluster
from testkit.cluster.load_images import ensure_images
from testkit.commands import print_progress
from testkit.driver.class_archive import archive
from testkit.errors import ClusterError
from testkit.images.base_image import ensure_base
from testkit.images.node_image import ensure_node_base, ensure_node_image, missing_programs
from testkit.images.penstock_images import build_images, image_names
from testkit.kafka.jars import connector_jars, kafka_jars
from testkit.plugins.missing_parts import in_ci
from testkit.tools import tool_names, tools
from testkit.tools.debian import promtool
from testkit.tools.pins import LOCAL_TOOLS, debian_release

_TOOLS = (*LOCAL_TOOLS, *CLIENTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A problem is printed, and the exit code is 1."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.run
    try:
        command(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testkit", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    prepare = commands.add_parser("prepare", help="build tools, jars and images; start nothing")
    prepare.add_argument("--cluster", action="store_true", help="only what the cluster needs")
    prepare.set_defaults(run=_prepare)
    up = commands.add_parser(
        "up", help="start the cluster, or reuse the running one if it is healthy"
    )
    up.add_argument("--nodes", type=int, default=1)
    up.set_defaults(run=_up)
    commands.add_parser("down", help="remove the cluster").set_defaults(run=_down)
    for name, help_text, action in (
        ("images", "build images and print their references", _images),
        ("load", "build images and load them into the cluster", _load),
    ):
        command = commands.add_parser(name, help=help_text)
        command.add_argument("names", nargs="*", metavar="NAME", help=", ".join(image_names()))
        command.set_defaults(run=action)
    doctor_command = commands.add_parser(
        "doctor", help="check what this machine has and what is missing"
    )
    doctor_command.set_defaults(run=_doctor)
    build = commands.add_parser(
        "tools", help="print the paths of pinned tools; compile them first if necessary"
    )
    build.add_argument("names", nargs="+", metavar="NAME", choices=tool_names())
    build.set_defaults(run=_tools)
    return parser


def _prepare(options: argparse.Namespace) -> None:
    """What only `make test-all` needs is built at its first use.

    The compiler's work, the downloads, and the images that need no compiled program overlap."""
    lacking = {} if options.cluster or in_ci() else doctor.lacking()
    for why in dict.fromkeys(lacking.values()):
        print_progress(f"NOT PREPARED, and the tests that need it are skipped:\n{why}")
    real = not options.cluster and "real" not in lacking
    cluster = "cluster" not in lacking
    programs = missing_programs() if cluster else ()
    wanted = [*programs, *(missing_clients() if cluster else ()), *(_TOOLS if real else ())]
    with ThreadPoolExecutor(3) as pool:
        works: list[Future[Any]] = [pool.submit(tools, *dict.fromkeys(wanted))]
        if real:
            works.append(pool.submit(_fetch_programs))
        if cluster:
            works.append(pool.submit(_build_images, node_base=bool(programs)))
        for work in works:
            work.result()
    if cluster:
        ensure_node_image()


def _build_images(*, node_base: bool) -> None:
    # Once, before the builds that start with it at the same time.
    ensure_base(debian_release("images"))
    with ThreadPoolExecutor(1) as pool:
        base = pool.submit(ensure_node_base) if node_base else None
        build_images(image_names())
        if base is not None:
            base.result()


def _fetch_programs() -> None:
    archive(f"{connector_jars()}/*")  # here it takes none of the time that a test has
    kafka_jars()
    promtool()


def _up(options: argparse.Namespace) -> None:
    cluster = ensure_cluster(options.nodes)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f"export PATH={cluster.kubectl.parent}:{cluster.helm.parent}:$PATH")


def _down(_: argparse.Namespace) -> None:
    remove_cluster()


def _images(options: argparse.Namespace) -> None:
    for name, ref in build_images(options.names or image_names()).items():
        print(f"{name} {ref}")


def _load(options: argparse.Namespace) -> None:
    for name, ref in ensure_images(options.names or image_names(), ensure_cluster()).items():
        print(f"{name} {ref}")


def _doctor(_: argparse.Namespace) -> None:
    findings = doctor.examine()
    print(doctor.report(findings))
    if not all(finding.good for finding in findings):
        raise ClusterError("This machine lacks something. See the lines marked with ✗.")


def _tools(options: argparse.Namespace) -> None:
    for path in tools(*options.names).values():
        print(path)
