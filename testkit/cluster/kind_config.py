"""The configuration that kind gets."""

from pathlib import Path

import yaml

from testkit.paths import HERE

POD_RESOLVER = HERE / "images" / "node" / "kind" / "pod-resolv.conf"
SHARED_VOLUMES = "/shared-volumes"
"""A folder that all nodes share, as they would share a file server."""

# Pods inherit a resolver that never answers, with any node image.
_KUBELET = """\
kind: KubeletConfiguration
resolvConf: /kind/pod-resolv.conf
"""
# Our own node image has no systemd cgroup driver, and kubelets from 1.35 on refuse cgroup v1 by
# default.
_OWN_KUBELET = _KUBELET + "cgroupDriver: cgroupfs\nfailCgroupV1: false\n"
# What an idle cluster does takes processor time from the tests: there is one control plane, so its
# parts elect no leader, and nobody reads statistics of containers.
_OWN_CONTROL_PLANE = """\
kind: ClusterConfiguration
controllerManager: {extraArgs: {leader-elect: "false"}}
scheduler: {extraArgs: {leader-elect: "false"}}
"""
_OWN_FIRST_NODE = """\
kind: InitConfiguration
patches: {directory: /kind/patches}
nodeRegistration: {kubeletExtraArgs: {housekeeping-interval: 30s}}
"""
_OWN = (_OWN_KUBELET, _OWN_CONTROL_PLANE, _OWN_FIRST_NODE)


def kind_config(nodes: int, resolver: Path, shared: Path, own_image: bool = True) -> str:
    """The configuration of a cluster with one control plane; the other nodes are workers.

    `resolver` is a file with the content of POD_RESOLVER, `shared` the folder behind
    SHARED_VOLUMES; both stay as long as the cluster.
    """
    if nodes < 1:
        raise ValueError("a cluster needs at least one node")
    mounts = [
        {
            "hostPath": str(resolver),
            "containerPath": "/kind/pod-resolv.conf",
            "readOnly": True,
        },
        {"hostPath": str(shared), "containerPath": SHARED_VOLUMES},
    ]
    roles = ["control-plane"] + ["worker"] * (nodes - 1)
    config: dict[str, object] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role, "extraMounts": mounts} for role in roles],
        "kubeadmConfigPatches": list(_OWN) if own_image else [_KUBELET],
    }
    if own_image:
        # nodenet and kube-proxy run on our nodes themselves.
        config["networking"] = {"disableDefaultCNI": True, "kubeProxyMode": "none"}
    return yaml.safe_dump(config, sort_keys=False)
