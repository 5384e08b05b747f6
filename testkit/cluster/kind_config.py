"""What kind is told to make."""

import yaml

from testkit.paths import HERE

POD_RESOLVER = HERE / "images" / "node" / "kind" / "pod-resolv.conf"

# The resolver that pods inherit is a dead one, whichever node image is used.
_KUBELET = """\
kind: KubeletConfiguration
resolvConf: /kind/pod-resolv.conf
"""
# Our own image has no systemd cgroup driver to rely on.
_OWN_KUBELET = _KUBELET + "cgroupDriver: cgroupfs\n"


def kind_config(nodes: int, own_image: bool = True) -> str:
    """The cluster's configuration: one control plane, the other nodes workers."""
    if nodes < 1:
        raise ValueError("a cluster has at least one node")
    resolver = {
        "hostPath": str(POD_RESOLVER),
        "containerPath": "/kind/pod-resolv.conf",
        "readOnly": True,
    }
    roles = ["control-plane"] + ["worker"] * (nodes - 1)
    config: dict[str, object] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role, "extraMounts": [resolver]} for role in roles],
        "kubeadmConfigPatches": [_OWN_KUBELET if own_image else _KUBELET],
    }
    if own_image:
        # nodenet and kube-proxy run on our nodes themselves.
        config["networking"] = {"disableDefaultCNI": True, "kubeProxyMode": "none"}
    return yaml.safe_dump(config, sort_keys=False)
