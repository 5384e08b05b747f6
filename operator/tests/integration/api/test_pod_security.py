"""Each verdict on a pod template is that of a real API server's Pod Security admission."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from penstock.contract.operator_settings import PodSecurity
from penstock.contract.pod_merge import merge_pod_template
from penstock.controller.children.stateful_set import driver_stateful_set
from penstock.validation.rules.pod_security import find_violations
from testkit.controller import samples
from testkit.errors import KubectlError
from testkit.kubernetes.api_server import api_server
from testkit.tools.pins import kubernetes_minor

SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PROBE = {"httpGet": {"port": 1, "host": "10.0.0.1"}}


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def context(**fields: Any) -> dict[str, Any]:
    return pod(securityContext=fields)


def driver(**fields: Any) -> dict[str, Any]:
    """Fields of Penstock's own container."""
    return pod(containers=[{"name": "driver", **fields}])


def secured(**fields: Any) -> dict[str, Any]:
    return driver(securityContext=fields)


def sidecar(kind: str = "containers", **fields: Any) -> dict[str, Any]:
    return pod(**{kind: [{"name": "mine", "image": "mine", **fields}]})


def volume(**source: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "mine", **source}])


def annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


APPARMOR = "container.apparmor.security.beta.kubernetes.io/driver"
VOLUMES: list[dict[str, Any]] = [
    {"hostPath": {"path": "/"}}, {"emptyDir": {}}, {"configMap": {"name": "c"}},
    {"secret": {"secretName": "s"}}, {"nfs": {"server": "s", "path": "/"}},
    {"persistentVolumeClaim": {"claimName": "c"}}, {"csi": {"driver": "d.example.com"}},
    {"downwardAPI": {"items": []}}, {"projected": {"sources": []}},
    {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
    {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
    {"glusterfs": {"endpoints": "e", "path": "p"}}, {"cephfs": {"monitors": ["m"]}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
    {"azureFile": {"secretName": "s", "shareName": "s"}},
    {"awsElasticBlockStore": {"volumeID": "v"}}, {"gcePersistentDisk": {"pdName": "p"}},
    {"cinder": {"volumeID": "v"}}, {"image": {"reference": "mine:1"}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }}}},
]  # fmt: skip
# Pod Security judges the hosts of probes from this version on. Penstock refuses them everywhere.
HOSTS_SINCE = (1, 34)
HOSTS = [
    driver(livenessProbe=PROBE),
    sidecar(securityContext=SAFE, startupProbe={"tcpSocket": {"port": 1, "host": "h"}}),
    driver(lifecycle={"postStart": PROBE}), driver(lifecycle={"preStop": PROBE}),
]  # fmt: skip
TEMPLATES: list[dict[str, Any]] = [
    {},
    pod(nodeSelector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}]),
    pod(hostNetwork=True), pod(hostNetwork=False), pod(hostPID=True), pod(hostIPC=True),
    context(runAsUser=0), context(runAsUser=1000), context(runAsGroup=0), context(fsGroup=0),
    context(runAsNonRoot=False), context(runAsNonRoot=True), context(supplementalGroups=[0]),
    context(seccompProfile={"type": "Unconfined"}),
    context(seccompProfile={"type": "Localhost", "localhostProfile": "mine"}),
    context(appArmorProfile={"type": "Unconfined"}),
    context(appArmorProfile={"type": "RuntimeDefault"}),
    context(seLinuxOptions={"type": "spc_t"}), context(seLinuxOptions={"type": "container_t"}),
    context(seLinuxOptions={"level": "s0:c1,c2"}), context(seLinuxOptions={"user": "system_u"}),
    context(seLinuxOptions={"role": "system_r"}),
    context(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
    context(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    context(sysctls=[{"name": "net.ipv4.tcp_keepalive_probes", "value": "1"}]),
    secured(runAsUser=0), secured(runAsUser=1), secured(runAsNonRoot=False),
    secured(privileged=True, allowPrivilegeEscalation=True), secured(privileged=False),
    secured(allowPrivilegeEscalation=True), secured(readOnlyRootFilesystem=False),
    secured(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}),
    secured(capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
    secured(capabilities={"add": ["CHOWN"], "drop": ["ALL"]}),
    secured(capabilities={"add": ["ALL"], "drop": ["ALL"]}),
    secured(capabilities={"add": ["NET_RAW"]}), secured(capabilities={"drop": ["KILL"]}),
    secured(capabilities={"drop": []}),
    secured(seccompProfile={"type": "Unconfined"}),
    secured(seccompProfile={"type": "RuntimeDefault"}),
    secured(appArmorProfile={"type": "Unconfined"}), secured(procMount="Default"),
    secured(seLinuxOptions={"type": "spc_t"}), secured(seLinuxOptions={"role": "x"}),
    driver(ports=[{"containerPort": 80, "hostPort": 80}]), driver(ports=[{"containerPort": 80}]),
    *HOSTS,
    driver(lifecycle={"preStop": {"exec": {"command": ["true"]}}}),
    sidecar(), sidecar(securityContext=SAFE), sidecar("initContainers"),
    sidecar("initContainers", securityContext=SAFE),
    sidecar("initContainers", securityContext=SAFE, restartPolicy="Always"),
    sidecar(securityContext={"allowPrivilegeEscalation": False}),
    sidecar(securityContext={"capabilities": {"drop": ["ALL"]}}),
    sidecar(securityContext={**SAFE, "runAsUser": 0}),
    sidecar(securityContext={**SAFE, "runAsNonRoot": False}),
    sidecar(securityContext={**SAFE, "runAsNonRoot": True}),
    sidecar(securityContext={"privileged": True}),
    sidecar("initContainers", securityContext={"privileged": True}),
    sidecar(securityContext=SAFE, ports=[{"containerPort": 80, "hostPort": 80}]),
    sidecar("initContainers", securityContext={**SAFE, "seccompProfile": {"type": "Unconfined"}}),
    *[volume(**source) for source in VOLUMES],
    annotated(**{APPARMOR: "unconfined"}), annotated(**{APPARMOR: "localhost/mine"}),
    annotated(team="fraud"),
]  # fmt: skip


@pytest.mark.parametrize("standard", [PodSecurity.RESTRICTED, PodSecurity.BASELINE])
def test_our_verdict_is_that_of_the_api_server(standard: PodSecurity) -> None:
    """On the pod as the template asks for it: its fields win over Penstock's own."""
    ours = driver_stateful_set(samples.desired())["spec"]["template"]
    pods = []
    for number, template in enumerate(TEMPLATES):
        asked = merge_pod_template(ours, template)
        asked["metadata"]["name"] = f"template-{number}"
        pods.append({"apiVersion": "v1", "kind": "Pod", **asked})
    with api_server() as server:
        kube = server.kube("judged")
        label = {"pod-security.kubernetes.io/enforce": standard.value}
        namespace = {"name": "judged", "labels": label}
        server.kube().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        with pytest.raises(KubectlError) as raised:
            kube.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(_list(pods)))
    said = str(raised.value)
    refused = set(map(int, re.findall(r'pods "template-(\d+)" is forbidden: violates Pod', said)))
    assert len(re.findall(r"Error from server|is invalid", said)) == len(refused), said
    ours_refused = {
        number
        for number, template in enumerate(TEMPLATES)
        if find_violations(template, "driver", standard)
    }
    others = [TEMPLATES[number] for number in sorted(refused ^ ours_refused)]
    assert others == ([] if kubernetes_minor() >= HOSTS_SINCE else HOSTS)
    assert 10 < len(refused) < len(TEMPLATES) - 10


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}
