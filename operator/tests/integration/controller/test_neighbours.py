"""A tenant who tries everything, beside one who edits a stream: two operators with a Lease."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import statistics
import string
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.api import quantities
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mappings
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.control_plane import Namespace, control_plane, namespace
from testkit.controller.operator_process import OperatorProcess
from testkit.kubernetes.api_server import ApiServer
from testkit.paths import CHECKOUT
from testkit.plugins.figures import RecordFigure
from testkit.wait import wait_for, wait_for_async

_VALUES = yaml.safe_load((CHECKOUT / "charts" / "penstock" / "values.yaml").read_text())
_LIMIT = int(quantities.in_bytes(_VALUES["resources"]["limits"]["memory"]))
# So long an edit may take on a machine that does a lot else; a frozen operator takes for ever.
_HANGS_SECONDS = 120
_AIM_SECONDS = 5
# As much as fits a request to the API server beside the rest. Random, so that nothing packs it.
_LARGE = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=900_000))
_OPTIONS = ("--lease=penstock-operator", "--own-namespace=kube-system")
_LEADS = "leads now"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own: the processes watch every namespace."""
    with control_plane() as server:
        yield server


def started(server: ApiServer, log: Path) -> OperatorProcess:
    operator = OperatorProcess(server, log, *_OPTIONS)
    wait_for("its health page", lambda: operator.page(operator.health, "/healthz"), 120)
    return operator


@pytest.fixture
def operators(server: ApiServer, tmp_path: Path) -> Iterator[list[OperatorProcess]]:
    """The leader, and the one that waits."""
    processes = [started(server, tmp_path / "one.log")]
    wait_for("the first leader", lambda: _LEADS in processes[0].log.read_text(), 120)
    processes.append(started(server, tmp_path / "two.log"))
    yield processes
    for operator in processes:
        operator.end(signal.SIGKILL)


@pytest.mark.proves("decisions/bounded-tenants.md")
@pytest.mark.parametrize(
    ("large", "invalid", "of_first"),
    [
        (20, 50, all),
        # What took too long comes after all others of its tenant, which takes most of an hour.
        pytest.param(200, 20_000, any, marks=[pytest.mark.full, pytest.mark.timeout(1800)]),
    ],
    ids=["some", "many"],
)
async def test_a_tenant_who_tries_everything_harms_no_other(
    large: int,
    invalid: int,
    of_first: Callable[[Iterable[bool]], bool],
    server: ApiServer,
    operators: list[OperatorProcess],
    space: Namespace,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """While the tenant writes, and while another operator takes all of it over."""
    wrote: list[float] = []
    took: list[float] = []
    cores = itertools.cycle((2, 3))

    async def edit() -> None:
        """An edit by the other tenant, until its status shows it."""
        begun = time.monotonic()
        await space.apply(executor={"cores": next(cores)})
        written = time.monotonic()
        stream = await space.get(kinds.STREAM, samples.NAME)
        assert stream is not None
        generation = stream["metadata"]["generation"]

        async def seen() -> bool:
            return bool((await space.status()).get("observedGeneration") == generation)

        await wait_for_async("the edit in the status", seen, _HANGS_SECONDS)
        took.append(time.monotonic() - written)
        wrote.append(written - begun)

    await space.apply(executor={"cores": 1})
    await edit()
    async with namespace(server) as tenant:
        work = asyncio.create_task(try_everything(tenant, large, invalid))
        while not work.done():
            await edit()
        await work
        await edit()
        peaks, beside = [each.peak_bytes() for each in operators], list(took)
        operators.pop(0).end(signal.SIGKILL)
        operators.append(started(server, tmp_path / "three.log"))
        await edit()
        await edit()
        peaks += [each.peak_bytes() for each in operators]
        record_figure("seconds until the API server had taken an edit, at most", max(wrote))
        record_figure("seconds from there to the status, in the median", statistics.median(beside))
        record_figure("seconds from there to the status, at most", max(beside))
        late = sum(seconds > _AIM_SECONDS for seconds in beside)
        record_figure(f"edits, and those that took more than {_AIM_SECONDS} s", [len(beside), late])
        record_figure("the same for the two edits after the leader was killed", took[len(beside) :])
        record_figure("MiB of an operator, at most", max(peaks) >> 20)
        assert max(peaks) < _LIMIT

        async def refused(name: str, reason: str) -> bool:
            """Whether all or any of the first streams of this name are."""
            found = [await tenant.get(kinds.STREAM, f"{name}-{number}") for number in range(5)]
            conditions = [mappings(at(each, "status", "conditions")) for each in found]
            return of_first(any(it["reason"] == reason for it in each) for each in conditions)

        for name, reason in (("large", "SpecTooLarge"), ("invalid", "UnsupportedOperation")):
            await wait_for_async(f"{name} refused", partial(refused, name, reason), _HANGS_SECONDS)


async def try_everything(tenant: Namespace, large: int, invalid: int) -> None:
    """Ten requests at once."""
    busy = asyncio.Semaphore(10)

    async def one(manifest: Manifest) -> None:
        async with busy:
            await tenant.api.apply(manifest, force=True)

    await _all(
        *(one(each) for each in catastrophes(tenant.name)),
        *(one(large_config_map(tenant.name, number)) for number in range(large)),
        *(one(large_stream(tenant.name, number)) for number in range(large)),
        *(one(invalid_stream(tenant.name, number)) for number in range(invalid)),
    )


async def _all(*work: Awaitable[None]) -> None:
    await asyncio.gather(*work)


def stream(namespace: str, name: str, **spec: Any) -> Manifest:
    found = samples.stream(**spec)
    found["metadata"] = {"name": name, "namespace": namespace}
    return found


def catastrophes(namespace: str) -> Iterator[Manifest]:
    """Texts over which Python would try for ever, and numbers that are no dates."""
    for number, pattern in enumerate(("(a+)+b", "a?" * 40 + "a" * 40, "a*" * 100 + "b")):
        made = stream(namespace, f"pattern-{number}")
        source, sink = made["spec"]["source"]["kafka"], made["spec"]["sink"]["kafka"]
        servers = {"bootstrapServers": "k:9092"}
        made["spec"]["source"]["kafka"] = {
            **{name: value for name, value in source.items() if name != "topics"},
            **servers,
            "topicPattern": pattern,
        }
        made["spec"]["sink"]["kafka"] = {**sink, **servers, "topic": "a" * 60}
        yield made
    deadline = "999999999h" * 6
    yield stream(namespace, "deadline", rollout={"deadline": deadline})


def large_stream(namespace: str, number: int) -> Manifest:
    template = {"metadata": {"annotations": {"a": _LARGE}}}
    return stream(namespace, f"large-{number}", driver={"podTemplate": template})


def large_config_map(namespace: str, number: int) -> Manifest:
    """One that says that it is of a stream, which there is: every second is of another one."""
    of = f"large-{number}" if number % 2 else "deadline"
    labels = {naming.LABEL_STREAM: of}
    meta = {"name": f"map-{number}", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": _LARGE}}


def invalid_stream(namespace: str, number: int) -> Manifest:
    """One that the API server takes, and the operator refuses."""
    sql = f"SELECT {number} AS key, count(*) AS value FROM source GROUP BY 1"  # in continuous mode
    return stream(namespace, f"invalid-{number}", transform={"sql": sql})
