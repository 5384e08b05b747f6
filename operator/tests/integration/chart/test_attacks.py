"""The attack table: what somebody with the right to write ContinuousStreams in a namespace tries.

Against a real API server with what the chart installs. The upper half is a spec, which the API
server or the operator refuses; the lower half is code of a stream, which acts as its driver.
docs/rbac.md says what nothing can refuse: who may create pods in a namespace may mount its Secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from penstock.contract import naming
from penstock.controller.children import rbac_and_network
from penstock.controller.children.stateful_set import driver_stateful_set
from penstock.controller.observation import parse_stream
from penstock.controller.operator_settings import Settings
from testkit.commands import run
from testkit.controller import samples
from testkit.errors import KubectlError
from testkit.kubernetes.api_server import api_server
from testkit.kubernetes.kubectl import Kube
from testkit.paths import CHECKOUT
from testkit.tools import tool
from testkit.wait import wait_for

pytestmark = pytest.mark.proves("rbac.md#a-streams-driver")

OPERATOR_NAMESPACE, TENANT = "penstock", "default"
SETTINGS = Settings("penstock/spark:test", namespace=OPERATOR_NAMESPACE)


@pytest.fixture(scope="module")
def kube() -> Iterator[Kube]:
    """A cluster with the chart, and the account and role that the operator gives to `flags`."""
    with api_server() as server:
        kube = server.kube(TENANT)
        server.kube().run("create", "namespace", OPERATOR_NAMESPACE)
        server.kube().run("apply", "-f", "-", stdin=rendered_chart("--skip-tests"))
        desired = samples.desired()
        owned = [
            rbac_and_network.service_account(desired),
            rbac_and_network.role(desired),
            rbac_and_network.role_binding(desired),
        ]
        for child in owned:
            assert child is not None
            del child["metadata"]["ownerReferences"]
            kube.apply(child)
        for stream, component in (
            ("flags", "executor"),
            ("other", "executor"),
            ("flags", "driver"),
        ):
            kube.apply(pod(f"{stream}-{component}-0", stream, component))
        kube.wait_until_served("cstream")
        yield kube


def rendered_chart(*options: str) -> str:
    """What the chart installs, with the policy."""
    rendered = run([
        tool("helm"), "template", "penstock", CHECKOUT / "charts/penstock",
        f"--namespace={OPERATOR_NAMESPACE}", "--set=driverPolicy.enabled=true", *options,
    ])  # fmt: skip
    return yaml.safe_dump_all(document for document in yaml.safe_load_all(rendered) if document)


# A spec.


def template(**spec: Any) -> dict[str, Any]:
    return {"driver": {"podTemplate": {"spec": spec}}}


def volume(**source: Any) -> dict[str, Any]:
    return template(volumes=[{"name": "mine", **source}])


REFUSED_SPECS = [
    # The node.
    (volume(hostPath={"path": "/"}), "hostPath"),
    (template(hostNetwork=True), "spec.hostNetwork"),
    (template(hostPID=True), "spec.hostPID"),
    (
        template(containers=[{"name": "x", "image": "x", "securityContext": {"privileged": True}}]),
        "spec.containers[x].securityContext.privileged",
    ),
    (
        template(initContainers=[{"name": "x", "image": "x"}]),
        "spec.initContainers[x].securityContext.allowPrivilegeEscalation",
    ),
    (
        {"sparkConf": {"spark.kubernetes.executor.volumes.hostPath.x.mount.path": "/"}},
        "spec.sparkConf",
    ),
    # Another account.
    ({"serviceAccountName": "default"}, "name another"),
    (template(serviceAccountName="penstock-operator"), "use spec.serviceAccountName"),
    (
        {"sparkConf": {"spark.kubernetes.authenticate.executor.serviceAccountName": "x"}},
        "use spec.serviceAccountName",
    ),
    # Another stream's pods, and the secret of Spark's RPC.
    ({"sparkConf": {"spark.kubernetes.executor.podNamePrefix": "other"}}, "podNamePrefix"),
    ({"sparkConf": {"spark.authenticate": "false"}}, "Spark's RPC is always authenticated"),
    ({"sparkConf": {"spark.kubernetes.namespace": "other"}}, "use metadata.namespace"),
    # Another Secret than by name, and paths.
    (
        {"source": {"kafka": {
            "bootstrapServers": "k:1", "topics": ["a"],
            "tls": {"caSecret": {"name": "../other", "key": "k"}},
        }}},
        "caSecret.name",
    ),
    (
        {"source": {"kafka": {
            "bootstrapServers": "k:1", "topics": ["a"],
            "tls": {"caSecret": {"name": "s", "key": "../token"}},
        }}},
        "caSecret.key",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "says"), REFUSED_SPECS)
def test_a_spec_that_attacks_is_refused(kube: Kube, spec: dict[str, Any], says: str) -> None:
    """At apply, or by the operator before it creates anything, with the field in the message."""
    assert says in _refusal(kube, samples.stream(**spec))


def _refusal(kube: Kube, stream: dict[str, Any]) -> str:
    """Why the API server or the operator refuses a stream; empty if neither does."""
    try:
        kube.apply(stream)
    except KubectlError as refusal:
        return str(refusal)
    stored = kube.get("cstream", samples.NAME)
    assert stored is not None
    observed = parse_stream(stored, SETTINGS)
    return "" if observed.desired is not None else " ".join(map(str, observed.problems))


def test_text_of_a_spec_cannot_add_fields_to_what_the_driver_reads() -> None:
    """YAML in a value stays a value."""
    sql = "SELECT value FROM source\nspec: {image: evil}\n---\n- &a [*a]"
    document = samples.desired(transform={"sql": sql}).document
    (read,) = yaml.safe_load_all(document)
    assert read["spec"]["transform"]["sql"] == sql
    assert read["spec"]["image"] == samples.IMAGE


@pytest.mark.parametrize(
    "stolen",
    [
        {"labels": {naming.LABEL_STREAM: "other"}},
        {"annotations": {naming.ANNOTATION_POD_HASH: "other"}},
    ],
)
def test_what_the_operator_reads_of_a_pod_cannot_be_in_a_template(stolen: Any) -> None:
    observed = samples.observed(driver={"podTemplate": {"metadata": stolen}})
    assert observed.desired is None
    (problem,) = observed.problems
    assert "Penstock sets such keys itself" in problem.message


def test_an_owner_and_another_component_in_a_template_have_no_effect() -> None:
    stolen = {
        "labels": {naming.LABEL_COMPONENT: "executor"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "other"}],
    }
    observed = samples.observed(driver={"podTemplate": {"metadata": stolen}})
    assert observed.desired is not None
    made = driver_stateful_set(observed.desired)["spec"]["template"]["metadata"]
    assert made["labels"][naming.LABEL_COMPONENT] == naming.COMPONENT_DRIVER
    assert "ownerReferences" not in made


# Code of a stream, with the account of its driver.


def pod(
    name: str, stream: str = "flags", component: str = "executor", **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": naming.stream_labels(stream, component)},
        "spec": {
            "serviceAccountName": "flags-driver",
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", "image": "penstock/spark:test"}],
            **spec,
        },
    }


def secret(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def token(**fields: str) -> dict[str, Any]:
    source = {"serviceAccountToken": {"path": "t", **fields}}
    return {"name": "t", "projected": {"sources": [source]}}


def adds(capability: str) -> dict[str, Any]:
    context = {"capabilities": {"add": [capability]}}
    return {"name": "e", "image": "e", "securityContext": context}


PRIVILEGED = {"name": "e", "image": "e", "securityContext": {"privileged": True}}
REFUSED_OBJECTS = [
    (pod("a", hostNetwork=True), "no access to its node"),
    (pod("a", hostPID=True), "no access to its node"),
    (pod("a", volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "no access to its node"),
    (pod("a", containers=[PRIVILEGED]), "no access to its node"),
    (pod("a", initContainers=[PRIVILEGED]), "no access to its node"),
    (pod("a", stream="other"), "own stream only"),
    (pod("a", component="driver"), "executors only"),
    ({**pod("a"), "metadata": {"name": "a"}}, "own stream only"),
    (pod("a", serviceAccountName="admin"), "no other service account"),
    (pod("a", serviceAccountName="default"), "no other service account"),
    (pod("a", automountServiceAccountToken=True), "no token"),
    (pod("a", volumes=[token()]), "no token"),
    # A name of the API server.
    (pod("a", volumes=[token(audience="https://kubernetes.default.svc")]), "no token"),
    (secret("other-rpc-1"), "Secret of its RPC only"),
    (
        secret(
            "flags-rpc-1",
            type="kubernetes.io/service-account-token",
        )
        | {"metadata": {
            "name": "flags-rpc-1", "annotations": {"kubernetes.io/service-account.name": "admin"},
        }},
        "Secret of its RPC only",
    ),
]  # fmt: skip

DRIVER = f"--as=system:serviceaccount:{TENANT}:flags-driver"


@pytest.mark.parametrize(("made", "says"), REFUSED_OBJECTS)
def test_an_object_that_a_driver_may_not_create_is_refused(
    kube: Kube, made: dict[str, Any], says: str
) -> None:
    """By the policy of the chart: RBAC cannot limit what is created."""
    with pytest.raises(KubectlError, match=says):
        kube.run("create", DRIVER, "-f", "-", stdin=json.dumps(made))


@pytest.mark.parametrize(
    "words",
    [
        "get secret any",
        "annotate pod other-executor-0 a=b",
        "annotate pod flags-executor-0 a=b",
        "delete pod other-executor-0 --wait=false",
        "delete pods -l penstock.dev/stream=other --wait=false",
        "get pods -n kube-system",
        "get configmaps",
        "get cstream",
        "create token flags-driver",
        "get roles",
        "get nodes",
    ],
)
def test_a_request_that_a_driver_may_not_make_is_refused(kube: Kube, words: str) -> None:
    with pytest.raises(KubectlError, match=r"forbidden|denied request"):
        kube.run(*words.split(), DRIVER)
    assert kube.get("pod", "other-executor-0") is not None


def test_what_a_driver_needs_is_allowed(kube: Kube) -> None:
    """And others are not limited by the policy: neither people nor other accounts."""
    for_cloud = token(audience="sts.amazonaws.com")  # as a webhook of the cloud adds it
    for made in (pod("flags-exec-1", volumes=[for_cloud]), secret("flags-rpc-1")):
        kube.run("create", DRIVER, "-f", "-", stdin=json.dumps(made))
    kube.run("get", DRIVER, "pods", "-l", "penstock.dev/stream=flags")
    kube.run("get", DRIVER, "pod", "flags-driver-0")
    kube.run("annotate", DRIVER, "pod", "flags-driver-0", "penstock.dev/report=x")
    kube.run("delete", DRIVER, "pod", "flags-exec-1", "--wait=false")
    kube.apply(pod("mine", stream="mine", serviceAccountName="mine"))
    kube.run("create", "role", "ci", "--verb=create", "--resource=pods")
    kube.run("create", "rolebinding", "ci", "--role=ci", f"--serviceaccount={TENANT}:ci")
    others = f"--as=system:serviceaccount:{TENANT}:ci"
    kube.run("create", others, "-f", "-", stdin=json.dumps(pod("ci", serviceAccountName="ci")))


def test_with_baseline_an_executor_may_add_the_capabilities_of_that_standard(kube: Kube) -> None:
    """And no others. The API server takes the other policy into force a moment later."""
    policy = "--show-only=templates/driveradmissionpolicy.yaml"
    kube.run("apply", "-f", "-", stdin=rendered_chart(policy, "--set=podSecurity=baseline"))
    try:
        allowed, refused = (
            pod("b", containers=[adds(capability)]) for capability in ("CHOWN", "SYS_ADMIN")
        )
        wait_for("the policy", lambda: not _refusal_of(kube, allowed), 30)
        assert "no access to its node" in _refusal_of(kube, refused)
    finally:
        kube.run("apply", "-f", "-", stdin=rendered_chart(policy))


def _refusal_of(kube: Kube, made: dict[str, Any]) -> str:
    """Why the API server would refuse an object of a driver; empty if it would not."""
    try:
        kube.run("create", DRIVER, "--dry-run=server", "-f", "-", stdin=json.dumps(made))
    except KubectlError as refusal:
        return str(refusal)
    return ""
