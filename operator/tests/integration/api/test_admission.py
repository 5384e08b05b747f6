"""What the API server accepts and refuses with the CRD alone, without the operator."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from penstock.api.reserved_spark_conf import RESERVED_CONFS
from penstock.api.v1alpha1.stream import ContinuousStream
from testkit.errors import KubectlError
from testkit.kubernetes.api_server import ApiServer, api_server
from testkit.kubernetes.kubectl import Kube, Object
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.paths import CHECKOUT
from testkit.streams.bad_manifests import GOOD, RING_1, Bad
from testkit.streams.crd_schema import nodes, schema
from testkit.streams.every_field import WIDE
from testkit.streams.streams import changed, manifest
from testkit.wait import wait_for

ROOT = CHECKOUT
CRD = ROOT / "crds" / "penstock.dev_continuousstreams.yaml"
ON_CALL = ROOT / "docs/on-call.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
# A YAML block of a document that is a complete resource.
BLOCK = re.compile(r"^```yaml\n(apiVersion: penstock.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCKS = [(path.name, text) for path in DOCUMENTS for text in BLOCK.findall(path.read_text())]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server that has nothing but the CRD."""
    with api_server() as server:
        server.serve_streams()
        yield server


@pytest.fixture(scope="module")
def kube(server: ApiServer) -> Kube:
    return server.kube("default")


def refusal(server: ApiServer, spec: Object) -> str:
    """Why the API server refuses a stream with this spec; empty if it does not."""
    return server.refusal(json.dumps(manifest("bad", spec))) or ""


@pytest.mark.parametrize("bad", RING_1, ids=str)
def test_a_bad_manifest_is_refused_at_apply(server: ApiServer, bad: Bad) -> None:
    """The error has the field, the reason and the remedy, before any code of Penstock runs.

    RING_2 needs more than the schema: the operator refuses those (integration/validation).
    """
    message = refusal(server, bad.spec)
    assert bad.at in message
    assert (bad.ring1 or bad.says) in message


def test_kubectl_shows_why_a_manifest_is_refused(kube: Kube) -> None:
    bad = RING_1[0]
    with pytest.raises(KubectlError, match=re.escape(bad.at)):
        kube.apply(manifest("bad", bad.spec))


@pytest.mark.parametrize("conf", RESERVED_CONFS)
def test_a_conf_that_penstock_sets_is_refused_at_apply(server: ApiServer, conf: str) -> None:
    """The error names this key only, with the alternative, although there are other keys."""
    spec = changed(GOOD, "sparkConf", {"spark.sql.session.timeZone": "UTC", conf: "x"})
    message = refusal(server, spec)
    assert f"{conf}: {RESERVED_CONFS[conf]}" in message
    assert sum(f" {reserved}: " in message for reserved in RESERVED_CONFS) == 1


@pytest.mark.parametrize("name", ["x" * 46, "a.b"])
def test_a_name_that_is_not_valid_for_its_pods_is_refused(kube: Kube, name: str) -> None:
    """The names of pods start with the name of the stream."""
    with pytest.raises(KubectlError, match="at most 45 characters of a-z, 0-9 and -"):
        kube.apply(manifest(name, GOOD))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_stored_as_it_was_applied(kube: Kube, example: Path) -> None:
    """The API server adds and drops nothing, so GitOps tools see no drift."""
    assert "created" in kube.run("apply", "-f", str(example))
    for applied in yaml.safe_load_all(example.read_text()):
        stored = kube.get("cstream", applied["metadata"]["name"])
        assert stored is not None
        assert stored["spec"] == applied["spec"]
    assert "unchanged" in kube.run("apply", "-f", str(example))
    assert kube.run("apply", "--server-side", "--force-conflicts", "-f", str(example))


@pytest.mark.parametrize(("document", "text"), BLOCKS)
def test_every_resource_in_the_documentation_is_accepted(
    kube: Kube, document: str, text: str
) -> None:
    """In a dry run with strict validation. unit/docs/test_yaml_blocks.py asks the models."""
    kube.run("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)


def test_the_documented_policy_allows_images_of_one_registry_only(
    server: ApiServer, kube: Kube
) -> None:
    """Those of docs/how-to/restrict-images.md, for streams and for pods."""
    page = (ROOT / "docs/how-to/restrict-images.md").read_text()
    policy, binding, for_pods = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    for_pods_too = binding.replace("stream-images", "pod-images")
    kube.run("apply", "-f", "-", stdin="---\n".join((policy, binding, for_pods, for_pods_too)))
    kube.run("label", "namespace", "default", "streams=true")
    try:
        said = "spec.image must come from registry.example.com"
        other, ours = (
            {**GOOD, "image": f"{registry}/spark:1"}
            for registry in ("elsewhere.example.com", "registry.example.com")
        )
        wait_for("the policy", lambda: said in refusal(server, other), 60)
        assert refusal(server, ours) == refusal(server, GOOD) == ""
        run = ("run", "pod", "--dry-run=server", "--image")

        def refuses_pod() -> bool:
            try:
                kube.run(*run, "elsewhere.example.com/pod:1")
            except KubectlError as refused:
                return "images must come from registry.example.com" in str(refused)
            return False

        wait_for("the policy for pods", refuses_pod, 60)  # its cache has one after the other
        kube.run("create", "serviceaccount", "default")
        kube.run(*run, "registry.example.com/pod:1")
        high = '--overrides={"spec": {"priorityClassName": "system-cluster-critical"}}'
        with pytest.raises(KubectlError, match="priorityClassName must be streams, or absent"):
            kube.run(*run, "registry.example.com/pod:1", high)
    finally:
        for name in ("stream-images", "pod-images"):
            kube.run("delete", "validatingadmissionpolicybinding", name)
        # The API server goes by its cache of policies.
        wait_for("the end of the policy", lambda: refusal(server, other) == "", 60)


@pytest.mark.proves("on-call.md#get-the-command")
def test_the_pod_for_on_call_is_accepted_with_its_shipped_rights(server: ApiServer) -> None:
    """That of docs/on-call.md, in a namespace as config/default has it; the guides' rehearsal runs
    it.
    """
    kube = server.kube("penstock")
    kube.run("apply", "-f", str(ROOT / "config/default/namespace.yaml"))
    for name in ("rights", "exec", "rollback"):
        file = ROOT / f"examples/on-call/{name}.yaml"
        kube.run("apply", "--validate=strict", "-f", "-", stdin=file.read_text())
    page = ON_CALL.read_text()
    (kind, overrides) = re.findall(r"--override-type=(\w+) --overrides='(.*)'", page)[0]
    made = kube.run(
        *("run", "doctor", "--dry-run=server", "--restart=Never", "--image=operator"),
        *(f"--override-type={kind}", f"--overrides={overrides}", "-o", "json"),
        *("--", "doctor", "-A"),
    )
    (container,) = json.loads(made)["spec"]["containers"]
    assert (container["image"], container["args"]) == ("operator", ["doctor", "-A"])


@pytest.mark.proves("on-call.md#rights")
def test_who_is_on_call_looks_at_all_streams_and_runs_nothing(
    server: ApiServer, tmp_path: Path
) -> None:
    """With the commands of docs/on-call.md: the strong rights are in the streams' namespaces only,
    or nowhere.
    """
    kube = server.kube("penstock")
    kube.run("apply", "-f", str(ROOT / "config/default/namespace.yaml"))
    server.kube().run("create", "namespace", "payments")
    kube.run("apply", "-f", str(ROOT / "examples/on-call/rights.yaml"))
    (bind,) = re.findall(r"^kubectl (create rolebinding .*)$", ON_CALL.read_text(), re.MULTILINE)
    server.kube().run(*bind.split())
    payments = server.kube("payments")
    create(payments, GOOD)
    token = kube.run("create", "token", "on-call").strip()
    kubeconfig = server.kubeconfig_of(token, tmp_path)

    def may(verb: str, what: str, namespace: str) -> bool:
        resource, _, sub = what.partition("/")
        asked = ("auth", "can-i", verb, resource, f"--subresource={sub}", "-n", namespace)
        said = subprocess.run(
            [server.kubectl, *asked, f"--kubeconfig={kubeconfig}"], capture_output=True, text=True
        )
        return said.stdout.strip() == "yes"

    # The API server goes by its cache of roles.
    wait_for("the rights", lambda: may("get", "pods/log", "payments"), 60)
    penstock = PenstockCommand(kubeconfig, "payments")
    everywhere = penstock.run("doctor", "-A").stdout
    assert "cannot be read" not in everywhere
    found = penstock.run("doctor").stdout
    assert re.findall(r"([a-z]+ [a-z./]+) in payments", found.partition("You may not")[2]) == [
        "get pods/exec", "create pods/exec",
    ]  # fmt: skip
    assert penstock.run("plan", str(EXAMPLES[0])).code == 0
    assert not may("get", "pods/log", "kube-system")
    assert not may("get", "pods/proxy", "kube-system")
    assert not may("create", "pods/exec", "payments")
    assert not may("update", "continuousstreams.penstock.dev", "payments")


def test_a_stream_with_every_field_is_stored_as_it_was_applied(kube: Kube) -> None:
    """The diff is empty after client-side and server-side apply: nothing is added or dropped."""
    for number, spec in enumerate(WIDE):
        ContinuousStream.model_validate(manifest("wide", spec))
        text = yaml.safe_dump(manifest(f"wide-{number}", spec))
        assert "created" in kube.run("apply", "-f", "-", stdin=text)
        assert kube.run("diff", "-f", "-", stdin=text) == ""
        stored = kube.get("cstream", f"wide-{number}")
        assert stored is not None
        assert stored["spec"] == spec
        forced = ("--server-side", "--force-conflicts")
        kube.run("apply", *forced, "-f", "-", stdin=text)
        assert kube.run("diff", *forced, "-f", "-", stdin=text) == ""
        again = kube.get("cstream", f"wide-{number}")
        assert again is not None
        assert again["metadata"]["generation"] == 1
        assert again["spec"] == spec


VOLUME = "checkpoint.volume"
CLASS, SIZE = f"{VOLUME}.storageClassName", f"{VOLUME}.size"
FAST = changed(GOOD, CLASS, "fast")
LARGE = changed(GOOD, SIZE, "2Gi")
# From one spec to another, and what the refusal names.
FORBIDDEN_UPDATES = [
    pytest.param(FAST, changed(FAST, CLASS, "slow"), "storageClassName", id="class changed"),
    pytest.param(FAST, changed(FAST, CLASS, ...), "storageClassName", id="class removed"),
    pytest.param(FAST, changed(FAST, VOLUME, ...), "storageClassName", id="volume removed"),
    pytest.param(FAST, GOOD, "storageClassName", id="checkpoint removed, class"),
    pytest.param(GOOD, FAST, "storageClassName", id="class added"),
    pytest.param(GOOD, changed(GOOD, CLASS, ""), "storageClassName", id="empty class added"),
    pytest.param(LARGE, changed(GOOD, SIZE, "2047Mi"), "size cannot shrink", id="size smaller"),
    pytest.param(LARGE, GOOD, "size cannot shrink", id="checkpoint removed, size"),
    pytest.param(GOOD, changed(GOOD, SIZE, "1G"), "size cannot shrink", id="below the default"),
]


def create(kube: Kube, spec: Object) -> None:
    """A new stream `update`, which `replace` changes."""
    kube.run("delete", "cstream", "update", "--ignore-not-found")
    kube.run("create", "-f", "-", stdin=yaml.safe_dump(manifest("update", spec)))


def replace(kube: Kube, spec: Object) -> None:
    """A client-side apply would keep fields that the new manifest does not have."""
    kube.run("replace", "-f", "-", stdin=yaml.safe_dump(manifest("update", spec)))


@pytest.mark.parametrize(("before", "after", "named"), FORBIDDEN_UPDATES)
def test_an_update_that_the_volume_cannot_follow_is_refused(
    kube: Kube, before: Object, after: Object, named: str
) -> None:
    """Also if a parent is removed, after which the next update could add another value."""
    create(kube, before)
    with pytest.raises(KubectlError, match=named) as refused:
        replace(kube, after)
    assert "delete the stream and its PersistentVolumeClaim" in str(refused.value)
    stored = kube.get("cstream", "update")
    assert stored is not None
    assert stored["spec"] == before


STORE = "checkpoint.objectStore"
AWAY = changed(GOOD, STORE, {"location": "s3a://bucket/prefix"})
KEYED = changed(
    AWAY,
    STORE,
    {
        "location": "s3a://bucket/prefix",
        "endpoint": "https://minio.example:9000",
        "region": "us-east-1",
        "pathStyleAccess": True,
        "accessKeyIdSecret": {"name": "keys", "key": "id"},
        "secretAccessKeySecret": {"name": "keys", "key": "secret"},
    },
)


@pytest.mark.proves(8)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(GOOD, AWAY, id="added"),
        pytest.param(LARGE, AWAY, id="volume to store"),
        pytest.param(AWAY, changed(GOOD, VOLUME, {}), id="store to volume"),
        pytest.param(AWAY, GOOD, id="checkpoint removed"),
        pytest.param(AWAY, changed(GOOD, "checkpoint.generation", 0), id="store removed"),
        pytest.param(AWAY, changed(AWAY, f"{STORE}.location", "s3a://other/prefix"), id="bucket"),
        pytest.param(AWAY, changed(AWAY, f"{STORE}.location", "s3a://bucket/other"), id="prefix"),
    ],
)
def test_a_checkpoint_in_an_object_store_stays_there(
    kube: Kube, before: Object, after: Object
) -> None:
    """Nor does one on a volume move to a store: what runs would begin anew."""
    create(kube, before)
    with pytest.raises(KubectlError, match=f"{STORE}.location cannot be changed, added") as refused:
        replace(kube, after)
    assert "delete the stream, and apply it again" in str(refused.value)
    stored = kube.get("cstream", "update")
    assert stored is not None
    assert stored["spec"] == before


def test_how_to_reach_an_object_store_may_change(kube: Kube) -> None:
    """Endpoint, region and keys: the store may move, and keys are renewed."""
    create(kube, AWAY)
    replace(kube, KEYED)
    replace(kube, changed(KEYED, f"{STORE}.accessKeyIdSecret.name", "new-keys"))
    replace(kube, changed(AWAY, "checkpoint.generation", 0))


BLUE = changed(GOOD, "className", "blue")


@pytest.mark.proves(26)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BLUE, changed(GOOD, "className", "green"), id="changed"),
        pytest.param(BLUE, GOOD, id="removed"),
        pytest.param(GOOD, BLUE, id="added"),
    ],
)
def test_a_stream_is_not_handed_to_another_operator(
    kube: Kube, before: Object, after: Object
) -> None:
    """Both operators could take it for their own for a moment."""
    create(kube, before)
    replace(kube, before)
    with pytest.raises(KubectlError, match="className cannot be changed, added or removed"):
        replace(kube, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (GOOD, changed(GOOD, SIZE, "1024Mi")),
        (GOOD, changed(GOOD, SIZE, 2 * 2**30)),
        (LARGE, changed(GOOD, SIZE, "3Gi")),
        (FAST, changed(FAST, f"{VOLUME}.reclaimPolicy", "Delete")),
        (GOOD, changed(GOOD, "trigger.continuous.checkpointInterval", "2s")),
    ],
)
def test_an_update_that_the_volume_can_follow_is_accepted(
    kube: Kube, before: Object, after: Object
) -> None:
    """The same size in another spelling, a larger size, another reclaim policy."""
    create(kube, before)
    replace(kube, after)


REQUESTED_CPU = "driver.resources.requests.cpu"
LIMITED_MEMORY = "driver.resources.limits.memory"
INTERVAL = "trigger.continuous.checkpointInterval"
SPELLINGS = [
    *[
        (REQUESTED_CPU, value)
        for value in (1, 0, -1, "1", "0.5", ".5", "500m", "1e-1", "1E", "half")
    ],
    *[
        (REQUESTED_CPU, value)
        for value in ("", "1 ", "5u", "+1", "1.", "1,5", "0x1", 0.5, 2.0, True)
    ],
    *[
        (LIMITED_MEMORY, value)
        for value in (2**31, 2**20, "2e9", "2E9", "2G", "2Gi", "1.5Gi", "2gi")
    ],
    *[(LIMITED_MEMORY, value) for value in ("2147483648", "0.002Ti", "2097152Ki", "2Mb", "512m")],
    *[(INTERVAL, value) for value in ("1m30s", "1 minute 30 seconds", "1.5s", "0.5 hours", "0 ms")],
    *[
        (INTERVAL, value)
        for value in ("1 h 2 min 3 sec 4 millis", "0m0s", "0.1ms", "1s ", "90", 90)
    ],
    *[("trigger", {"realTime": {"batchDuration": value}}) for value in ("0s 999ms", "0 s 1000 ms")],
    *[
        ("trigger", {"realTime": {"batchDuration": value}})
        for value in ("0.017 minutes", "0.5 second")
    ],
]


def test_quantities_and_durations_are_accepted_by_the_api_server_and_the_models_alike(
    kube: Kube,
) -> None:
    """The operator reads what the API server stores, and `penstock validate` agrees with it."""
    streams = [
        manifest(f"spelled-{number}", changed(GOOD, field, value))
        for number, (field, value) in enumerate(SPELLINGS)
    ]
    # As JSON: YAML reads 1e9 as a number or as a string, depending on its version.
    text = "\n---\n".join(json.dumps(stream) for stream in streams)
    with pytest.raises(KubectlError) as refused:
        kube.run("apply", "--dry-run=server", "-f", "-", stdin=text)
    refused_by_server = set(re.findall('"(spelled-[0-9]+)" is invalid', str(refused.value)))
    refused_by_models = {
        stream["metadata"]["name"] for stream in streams if not _is_accepted_by_models(stream)
    }
    differing = refused_by_server ^ refused_by_models
    assert [SPELLINGS[int(name.rpartition("-")[2])] for name in differing] == []


def _is_accepted_by_models(document: Object) -> bool:
    try:
        ContinuousStream.model_validate(document)
    except ValidationError:
        return False
    return True


EXPLAINED = [
    ("spec.trigger.continuous.checkpointInterval", "How often an epoch is committed"),
    ("spec.trigger.microBatch.asyncProgress.checkpointInterval", "How often offsets and commits"),
    ("spec.trigger.realTime.batchDuration", "at least 1s"),
    ("spec.source.kafka.startingOffsetsByPartition", "-2 for the earliest or -1 for the latest"),
    ("spec.source.rate.rowsPerSecond", "Rows per second"),
    ("spec.executor.resources", "CPU and memory of one executor"),
    ("spec.transform.functions.expression", "A Spark SQL expression over the parameters"),
    ("spec.sink.kafka.sasl.mechanism", "PLAIN sends the password unencrypted"),
    ("status.conditions.reason", "CamelCase"),
    ("status.lag", "Records that the query has not handled"),
]


@pytest.mark.parametrize(("field", "expected"), EXPLAINED)
def test_kubectl_explain_answers_for_a_field(kube: Kube, field: str, expected: str) -> None:
    """The description is a sentence, with the unit."""
    text = " ".join(kube.run("explain", f"cstream.{field}").split())
    assert expected in text


def test_kubectl_explain_answers_for_every_field(kube: Kube) -> None:
    """One call lists all fields; unit/api/test_crd.py checks their descriptions."""
    text = kube.run("explain", "cstream", "--recursive")
    shown = set(re.findall(r"^ +(\w+)\t", text, re.MULTILINE))
    names = {
        path.rsplit(".", 1)[-1] for path, _ in nodes(schema()) if path[-2:] not in ("", "[]", "{}")
    }
    assert names - shown == set()
