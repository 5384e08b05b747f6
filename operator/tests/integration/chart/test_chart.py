"""The chart passes lint, checks its values, and renders objects that a real API server accepts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.client.reading import rights
from penstock.contract import naming
from penstock.contract.operator_settings import ElectionTimes, QueueLimits
from penstock.controller.children.stateful_set import driver_stateful_set
from penstock.controller.operator_settings import Settings, read_settings
from scripts import kustomize_base
from testkit.commands import run
from testkit.controller import samples
from testkit.kubernetes.api_server import api_server
from testkit.kubernetes.kubectl import Kube
from testkit.kubernetes.penstock_command import PenstockCommand
from testkit.paths import CHECKOUT
from testkit.tools import tool
from testkit.wait import wait_for

CHART = CHECKOUT / "charts" / "penstock"


def _helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tool("helm")), *arguments], capture_output=True, text=True, timeout=120
    )


def test_the_chart_passes_lint() -> None:
    """In strict mode: a warning is a failure."""
    done = _helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves("install.md#choose-the-settings")
@pytest.mark.parametrize(
    "wrong",
    [
        "replicas=two",
        "image.repository=",
        "watchNamespaces=default",
        "watchNamespaceSelector.matchLabels=streams",
        "watchNamespaceSelector.streams=yes",
        "watchNamespaceSelector.matchLabels.team=data/ml",
        "className=Blue",
        "watchNamespaceSelector.matchExpressions[0].key=a,watchNamespaceSelector.matchExpressions[0].operator=In",
        "crds.install=maybe",
        "podSecurity=none",
        "fixedUser=185",
        "networkPolicies.enabled=perhaps",
        "podMonitor.interval=often",
        "podMonitor.drivers.sampleLimit=-1",
        "podMonitor.drivers.bodySizeLimit=much",
        "prometheusRule.enabled=maybe",
        "prometheusRule.runbookUrl=here",
        "dashboards.labels=grafana",
        "streamDefaults.image=other",
        "logLevel=loud",
        "serviceAccount.name=No Name",
        "sparkImageMaxUnavailable=0",
        "workQueue.maxConcurrentReconciles=0",
        "workQueue.maxConcurrentReconcilesPerNamespace=0.5",
        "workQueue.streamQPS=0",
        "workQueue.streamBurst=0",
        "leaderElection.leaseDurationSeconds=10",  # no longer than renewDeadlineSeconds
        "leaderElection.retryPeriodSeconds=10",
        "leaderElection.renewDeadlineSeconds=often",
        "podDisruptionBudget.maxUnavailable=many",
        "probes.liveness.seconds=5",
        "hostNetwork=maybe",
        "dnsPolicy=Mine",
        "volumes=ca",
        "revisionHistoryLimit=-1",
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    """By the schema of the values, or by a template, and the message names the value."""
    done = _helm("template", "penstock", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert wrong.split("=")[0].split(".")[0] in done.stderr


def test_each_dashboard_is_a_config_map_for_the_sidecar_of_grafana() -> None:
    """With the value's labels and annotations; the runbooks are where the alerts have them."""
    values = (
        "dashboards.enabled=true,dashboards.labels.team=data,"
        "dashboards.annotations.grafana_folder=Streams,"
        "prometheusRule.runbookUrl=https://books.example/"
    )
    template = "--show-only=templates/dashboards.yaml"
    done = _helm("template", "penstock", str(CHART), "--set", values, template)
    made = list(yaml.safe_load_all(done.stdout))
    for config_map in made:
        metadata, data = config_map["metadata"], config_map["data"]
        assert metadata["labels"].items() >= {"grafana_dashboard": "1", "team": "data"}.items()
        assert metadata["annotations"] == {"grafana_folder": "Streams"}
        ((name, text),) = data.items()
        source = (CHART / "files/dashboards" / name.removeprefix("penstock-")).read_text()
        address = "https://penstock.dev/docs/runbooks"
        assert text == source.replace(address, "https://books.example")
    files = (CHART / "files/dashboards").glob("*.json")
    assert sorted(config_map["metadata"]["name"] for config_map in made) == sorted(
        f"penstock-operator-dashboard-{path.stem}" for path in files
    )


def test_without_the_value_there_is_no_dashboard() -> None:
    done = _helm("template", "penstock", str(CHART))
    assert done.returncode == 0
    assert "grafana" not in done.stdout


EVERYTHING = (
    "--set=driverPolicy.enabled=true,podMonitor.enabled=true,prometheusRule.enabled=true",
    "--api-versions=monitoring.coreos.com/v1",
)


def _rendered(release: str, namespace: str, *values: str) -> list[dict[str, Any]]:
    done = _helm("template", release, str(CHART), f"--namespace={namespace}", *values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.proves("install.md#choose-the-settings")
def test_a_policy_that_the_cluster_cannot_have_is_refused() -> None:
    """Instead of nothing that keeps drivers to their own pods."""
    wanted = ("template", "penstock", str(CHART), "--set=driverPolicy.enabled=true")
    done = _helm(*wanted, "--kube-version=1.29.4")
    assert done.returncode != 0
    assert "driverPolicy.enabled needs Kubernetes 1.30 or newer" in done.stderr
    for version in ("1.30.0", "1.30.2-gke.1", "1.34.4"):
        done = _helm(*wanted, f"--kube-version={version}")
        assert "kind: ValidatingAdmissionPolicyBinding" in done.stdout, done.stderr


class NoKeyTwice(yaml.SafeLoader):
    """What the API server refuses, and yaml reads without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert sorted(keys) == sorted(set(keys)), f"{node.start_mark}"
        return super().construct_mapping(node, deep)


OWN_LABELS = ("serviceAccount", "dashboards", "podMonitor", "prometheusRule")


@pytest.mark.proves("install.md#choose-the-settings")
def test_a_label_that_two_values_name_is_rendered_once() -> None:
    """The nearer one's, and never another one than the selectors have."""
    labels = {"team": "data", "app.kubernetes.io/name": "mine", "helm.sh/chart": "mine"}
    names = ("podLabels", *(f"{it}.labels" for it in OWN_LABELS))
    values = [
        f"--set-json=commonLabels={json.dumps({**labels, 'team': 'all'})}",
        *(f"--set-json={name}={json.dumps(labels)}" for name in names),
        "--set=dashboards.enabled=true",
    ]
    done = _helm("template", "penstock", str(CHART), *values, *EVERYTHING)
    assert done.returncode == 0, done.stderr
    found = {}
    for document in filter(None, yaml.load_all(done.stdout, NoKeyTwice)):
        found[document["kind"]] = document
    template = found["Deployment"]["spec"]["template"]
    for metadata in (template["metadata"], found["ServiceAccount"]["metadata"]):
        assert metadata["labels"]["app.kubernetes.io/name"] == "penstock"
    assert template["metadata"]["labels"]["team"] == "data"
    for kind in ("ConfigMap", "PodMonitor", "PrometheusRule"):
        assert found[kind]["metadata"]["labels"]["team"] == "data"
    assert found["Deployment"]["metadata"]["labels"]["team"] == "all"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("penstock", "blue"), ("penstock", "green"), id="one name, two namespaces"),
        pytest.param(("blue", "penstock"), ("green", "penstock"), id="two names, one namespace"),
    ],
)
def test_two_releases_have_no_object_in_common(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """But the resource type. Both watch the same namespace, for streams of a class each."""
    values = (*EVERYTHING, "--set=watchNamespaces={shop}")
    first, second = (
        {
            (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
            for document in _rendered(*release, *values, f"--set=className={release[1]}")
        }
        for release in (one, other)
    )
    assert {kind for kind, _, _ in first & second} == {"CustomResourceDefinition"}


def test_names_of_digits_stay_names() -> None:
    """Namespaces are called after account numbers, and YAML would read these as numbers."""
    rendered = _rendered("42", "7", *EVERYTHING, "--set-string=className=2,watchNamespaces={123}")
    for document in rendered:
        meta = document["metadata"]
        assert isinstance(meta.get("namespace", ""), str), document
        assert all(isinstance(value, str) for value in meta.get("labels", {}).values()), document
    namespaces = {document["metadata"].get("namespace") for document in rendered}
    assert namespaces == {None, "7", "123"}
    selectors = [
        document["spec"]["selector"] for document in rendered if document["kind"] == "PodMonitor"
    ]
    assert "2" in [selector["matchLabels"].get(naming.LABEL_CLASS) for selector in selectors]


@pytest.mark.parametrize("class_name", ["", "blue"])
def test_a_release_scrapes_the_drivers_of_its_class_only(class_name: str) -> None:
    """With the label that its operator gives them."""
    rendered = _rendered("one", "penstock", *EVERYTHING, f"--set=className={class_name}")
    assert _settings(rendered)["className"] == class_name
    (drivers,) = [
        document for document in rendered if document["metadata"]["name"] == "one-operator-drivers"
    ]
    labels = drivers["spec"]["selector"]["matchLabels"]
    spec = {"className": class_name} if class_name else {}
    assert (
        labels.items()
        <= driver_stateful_set(samples.desired(**spec))["spec"]["template"]["metadata"][
            "labels"
        ].items()
    )
    assert (naming.LABEL_CLASS in labels) is bool(class_name)
    assert ("matchExpressions" in drivers["spec"]["selector"]) is not bool(class_name)


def _settings(rendered: list[dict[str, Any]]) -> dict[str, Any]:
    """The file of the operator's settings, which is an annotation of its pods."""
    (deployment,) = [it for it in rendered if it["kind"] == "Deployment"]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    settings: dict[str, Any] = yaml.safe_load(annotations[naming.ANNOTATION_SETTINGS])
    return settings


def _read(rendered: list[dict[str, Any]], folder: Path) -> Settings:
    """The settings as the operator reads them."""
    (folder / "settings.yaml").write_text(yaml.safe_dump(_settings(rendered)))
    return read_settings(folder / "settings.yaml", "")


def test_the_operators_container_reads_its_pods_annotation() -> None:
    """So another setting is another pod, and `doctor` knows it from the Deployment."""
    (deployment,) = [it for it in _rendered("one", "default") if it["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == [
        "operator", "--settings=/etc/penstock/settings.yaml", "--own-namespace=default",
        "--lease=one-operator",
    ]  # fmt: skip
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/penstock")
    (item,) = volume["downwardAPI"]["items"]
    path = f"metadata.annotations['{naming.ANNOTATION_SETTINGS}']"
    assert item == {"path": "settings.yaml", "fieldRef": {"fieldPath": path}}


def test_namespaces_by_label_are_a_selector_and_a_right(tmp_path: Path) -> None:
    """The policy on drivers holds in all namespaces: they run on where a label is gone."""
    selector = {
        "matchLabels": {"streams": "yes"},
        "matchExpressions": [
            {"key": "team", "operator": "In", "values": ["data", "ml"]},
            {"key": "legacy", "operator": "DoesNotExist"},
            {"key": "penstock.dev/a", "operator": "Exists"},
        ],
    }
    value = f"--set-json=watchNamespaceSelector={json.dumps(selector)}"
    rendered = _rendered("one", "penstock", *EVERYTHING, value)
    settings = _read(rendered, tmp_path)
    assert (str(settings.watch_namespace_selector), settings.watch_namespaces) == (
        "streams=yes,team in (data,ml),!legacy,penstock.dev/a",
        (),
    )
    rules = [
        rule
        for document in rendered
        if document["kind"] == "ClusterRole" and document["metadata"]["name"].startswith("one-o")
        for rule in document["rules"]
        if rule["resources"] == ["namespaces"]
    ]
    assert rules[0] == {
        "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"],
    }  # fmt: skip
    (policy,) = [
        document for document in rendered if document["kind"] == "ValidatingAdmissionPolicy"
    ]
    assert "namespaceSelector" not in policy["spec"]["matchConstraints"]
    assert {(right.verb, right.resource) for right in rights.OF_NAMESPACE_SELECTOR} == {
        ("list", "namespaces"),
        ("watch", "namespaces"),
    }


def test_namespaces_are_named_or_selected() -> None:
    both = ("--set=watchNamespaces={shop}", "--set=watchNamespaceSelector.matchLabels.streams=yes")
    done = _helm("template", "penstock", str(CHART), *both)
    assert done.returncode != 0
    assert "watchNamespaces and watchNamespaceSelector exclude each other" in done.stderr


DEFAULTS = {
    "imagePullSecrets": [{"name": "registry"}],
    "checkpoint": {"volume": {"storageClassName": "fast"}},
    "driver": {"podTemplate": {"spec": {"nodeSelector": {"pool": "streams"}}}},
    "executor": {"resources": {"requests": {"memory": "3Gi"}}},
    "sparkConf": {"spark.sql.session.timeZone": "UTC"},
}
PLATFORM = {
    "fullnameOverride": "streams",
    "serviceAccount": {
        "name": "robot",
        "annotations": {"example.com/role": "streams"},
        "labels": {"azure.workload.identity/use": "true"},
        "automount": False,
    },
    "volumes": [{"name": "ca", "configMap": {"name": "proxy-ca"}}],
    "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    "hostNetwork": True,
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
    "revisionHistoryLimit": 3,
    "leaderElection": {"leaseDurationSeconds": 60},
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "probes": {"liveness": {"failureThreshold": 12}},
    "commonLabels": {"cost-center": "7"},
    "logLevel": "WARNING",
    "numbersIntervalSeconds": 60,
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "securityContext": {"readOnlyRootFilesystem": False},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable":
         "DoNotSchedule", "labelSelector": {}}
    ],
    "streamDefaults": DEFAULTS,
}  # fmt: skip


def test_what_a_platform_team_sets_reaches_the_operator(tmp_path: Path) -> None:
    values = [f"--set-json={name}={json.dumps(value)}" for name, value in PLATFORM.items()]
    rendered = _rendered("penstock", "default", *EVERYTHING, "--skip-tests", *values)
    (deployment,) = [it for it in rendered if it["kind"] == "Deployment"]
    (account,) = [it for it in rendered if it["kind"] == "ServiceAccount"]
    assert deployment["metadata"]["name"] == "streams"
    assert account["metadata"]["name"] == "robot"
    assert account["metadata"]["annotations"] == {"example.com/role": "streams"}
    subjects = [subject["name"] for it in rendered for subject in it.get("subjects", [])]
    assert subjects
    assert set(subjects) == {"robot"}
    of_release = [it for it in rendered if it["kind"] != "CustomResourceDefinition"]
    assert {it["metadata"]["labels"]["cost-center"] for it in of_release} == {"7"}
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert account["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert account["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    assert (pod["volumes"][1:], container["volumeMounts"][1:]) == (
        PLATFORM["volumes"], PLATFORM["volumeMounts"],
    )  # fmt: skip
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["dnsConfig"] == PLATFORM["dnsConfig"]
    assert deployment["spec"]["strategy"] == PLATFORM["updateStrategy"]
    assert deployment["spec"]["revisionHistoryLimit"] == 3
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/healthz", "port": "health"},
        "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 12,
    }  # fmt: skip
    (budget,) = [it for it in rendered if it["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == "50%"
    assert pod["serviceAccountName"] == "robot"
    assert pod["topologySpreadConstraints"] == PLATFORM["topologySpreadConstraints"]
    assert container["env"] == PLATFORM["extraEnv"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["args"][-1] == "--lease=streams"
    settings = _read(rendered, tmp_path)
    assert (settings.log_level, settings.numbers_interval_seconds) == ("WARNING", 60)
    assert settings.leader_election == ElectionTimes(60, 10, 2)
    assert settings.stream_defaults.spec == DEFAULTS


def test_how_much_is_done_at_once_reaches_the_operator(tmp_path: Path) -> None:
    queue = {
        "maxConcurrentReconciles": 7,
        "maxConcurrentReconcilesPerNamespace": 2,
        "streamQPS": 1.5,
        "streamBurst": 9,
    }
    of_values = (f"--set-json=workQueue={json.dumps(queue)}", "--set=sparkImageMaxUnavailable=4")
    read = [_read(_rendered("penstock", "default", *it), tmp_path) for it in ((), of_values)]
    found = [(each.work_queue, each.spark_image_max_unavailable) for each in read]
    assert found == [(QueueLimits(), 3), (QueueLimits(7, 2, 1.5, 9), 4)]


def test_a_policy_is_deleted_only_by_an_operator_that_wants_none() -> None:
    for enabled in (True, False):
        value = f"--set-json=networkPolicies.enabled={json.dumps(enabled)}"
        rendered = _rendered("penstock", "default", value)
        (role,) = [
            it for it in rendered
            if (it["kind"], it["metadata"]["name"]) == ("ClusterRole", "penstock-operator.default")
        ]  # fmt: skip
        verbs = [
            verb for rule in role["rules"] if "networkpolicies" in rule["resources"]
            for verb in rule["verbs"]
        ]  # fmt: skip
        assert ("delete" in verbs) is not enabled
        assert "patch" in verbs


def test_rights_and_account_may_be_somebody_elses() -> None:
    theirs = ("--set=rbac.create=false,serviceAccount.create=false", "--skip-tests")
    kinds = {it["kind"] for it in _rendered("penstock", "default", *theirs)}
    assert kinds.isdisjoint({"ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding"})


OPERATOR = "system:serviceaccount:default:penstock-operator"


@pytest.mark.proves(32)
@pytest.mark.parametrize(
    ("values", "elsewhere"),
    [
        ((), True),
        (("--set", "watchNamespaces={one,two},className=blue,driverPolicy.enabled=true"), False),
        (
            tuple(
                f"--set-json={name}={json.dumps(value)}"
                for name, value in PLATFORM.items()
                if name not in ("fullnameOverride", "serviceAccount")
            ),
            True,
        ),
    ],
)
def test_what_it_renders_is_accepted_by_a_real_api_server(
    values: tuple[str, ...], elsewhere: bool
) -> None:
    """In a server-side dry run with strict validation. The rights are those of docs/rbac.md."""
    rendered = _helm("template", "penstock", str(CHART), "--namespace=default", *values)
    assert rendered.returncode == 0, rendered.stderr
    with api_server() as server:
        kube = server.kube()
        for name in ("one", "two", "three"):
            kube.run("create", "namespace", name)
        output = kube.run(
            "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered.stdout
        )
        assert "deployment.apps/penstock-operator created (server dry run)" in output
        kube.run("apply", "-f", "-", stdin=rendered.stdout)
        kube.wait_until_served("cstream")
        assert _may(kube, "patch", "apps", "statefulsets", "one")
        assert _may(kube, "patch", "apps", "statefulsets", "three") is elsewhere
        assert not _may(kube, "get", "", "secrets", "one")
        assert _may(kube, "create", "coordination.k8s.io", "leases", "default")
        assert not _may(kube, "create", "coordination.k8s.io", "leases", "one")
        assert not _may(kube, "delete", "", "persistentvolumeclaims", "one")


@pytest.mark.proves("install.md#uninstall")
def test_another_release_takes_over_the_resource_type_that_an_uninstall_leaves() -> None:
    """As docs/install.md says: its streams are in it. Helm itself asks for the option."""
    with api_server() as server:
        kube = server.kube()
        kube.run("create", "namespace", "other")

        def helm(*words: str) -> subprocess.CompletedProcess[str]:
            return _helm(*words, f"--kubeconfig={server.kubeconfig}")

        install = ("install", "second", str(CHART), "--namespace=other")
        assert helm("install", "first", str(CHART), "--namespace=default").returncode == 0
        kube.wait_until_served("cstream")
        server.kube("default").apply(samples.stream())
        assert helm("uninstall", "first", "--namespace=default").returncode == 0
        assert server.kube("default").get("cstream", samples.NAME) is not None
        refused = helm(*install)
        assert refused.returncode != 0
        assert "invalid ownership metadata" in refused.stderr
        done = helm(*install, "--take-ownership")
        assert done.returncode == 0, done.stderr
        assert server.kube("default").get("cstream", samples.NAME) is not None


def test_helm_test_says_whether_the_operator_is_ready(tmp_path: Path) -> None:
    """Its pod's command, with the rights of the pod's account and no others."""
    objects = _rendered("penstock", "default")
    (pod,) = [document for document in objects if document["kind"] == "Pod"]
    (deployment,) = [document for document in objects if document["kind"] == "Deployment"]
    with api_server() as server:
        kube = server.kube("default")
        kube.apply(*(document for document in objects if document["kind"] != "Pod"))
        kube.wait_until_served("cstream")
        token = kube.run("create", "token", pod["spec"]["serviceAccountName"]).strip()
        command, namespace = pod["spec"]["containers"][0]["args"]
        assert namespace == "--namespace=default"
        penstock = PenstockCommand(server.kubeconfig_of(token, tmp_path), "default")

        before = penstock.run(command)
        assert before.code == 1
        assert "penstock-operator: OperatorNotReady" in before.first_line
        kube.run(
            "patch", "deployment", deployment["metadata"]["name"], "--subresource=status",
            "--type=merge", '-p={"status": {"replicas": 1, "readyReplicas": 1}}',
        )  # fmt: skip
        after = penstock.run(command)
        assert (after.code, after.first_line) == (0, "ok: there is no stream")
        assert "cannot be read" not in after.stdout

        kube.run("delete", "crd", "continuousstreams.penstock.dev")
        wait_for("no resource type", lambda: penstock.run(command).code == 1)


@pytest.mark.proves("how-to/kustomize.md")
def test_the_kustomize_base_is_the_chart() -> None:
    """With the resource type and the namespace. If not: python -m scripts.kustomize_base."""
    helm = tool("helm")
    assert kustomize_base.RENDERED.read_text() == kustomize_base.render(helm)
    built = run([tool("kubectl"), "kustomize", kustomize_base.RENDERED.parent])
    rendered = _rendered("penstock", "penstock", "--skip-tests")
    assert _names(yaml.safe_load_all(built)) == {("Namespace", "penstock"), *_names(rendered)}


def _names(objects: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(document["kind"], document["metadata"]["name"]) for document in objects}


def _may(kube: Kube, verb: str, group: str, resource: str, namespace: str) -> bool:
    """Whether the API server allows the operator to do this."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": OPERATOR,
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "namespace": namespace,
            },
        },
    }
    answer = kube.run("create", "-o", "json", "-f", "-", stdin=json.dumps(review))
    allowed: bool = json.loads(answer)["status"]["allowed"]
    return allowed
