"""What a pod template asks for that a Pod Security Standard forbids. Pure.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards (1.34).
operator/tests/integration/api/test_pod_security.py compares each verdict with that of a real API
server. A field is judged as the template has it, also where Penstock's own value would win.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.operator_settings import PodSecurity

_SAFE_CAPABILITIES = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
     "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")
)  # fmt: skip
_SAFE_SYSCTLS = frozenset(
    ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range",
     "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
     "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
     "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes")
)  # fmt: skip
_SELINUX_TYPES = frozenset(
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]
)
_VOLUME_TYPES = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
     "projected", "secret")
)  # fmt: skip
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"

_Found = Iterator[tuple[str, str]]


def find_problems(spec: StreamSpec, allowed: PodSecurity) -> list[Problem]:
    """What the templates and sparkConf ask for beyond the standard that pods must meet."""
    return [
        *find_violations(spec.driver.pod_template, "driver", allowed),
        *find_violations(spec.executor.pod_template, "executor", allowed),
        *find_violations_in_conf(spec.spark_conf, allowed),
    ]


def find_violations(template: Mapping[str, Any], pod: str, allowed: PodSecurity) -> list[Problem]:
    """What the template of the `driver` or the `executor` asks for beyond the standard.

    Penstock sets what the standard requires for the whole pod and for its own container, which has
    the pod's name. Other containers must set themselves what cannot be set for the whole pod.
    """
    if allowed is PodSecurity.PRIVILEGED:
        return []
    spec = _mapping(template.get("spec"))
    at = f"spec.{pod}.podTemplate"
    beyond_baseline = list(_beyond_baseline(spec, _mapping(template.get("metadata"))))
    violations = [_violation(at, *each, PodSecurity.BASELINE) for each in beyond_baseline]
    if allowed is PodSecurity.RESTRICTED:
        known = {path for path, _ in beyond_baseline}
        violations += [
            _violation(at, path, words, PodSecurity.RESTRICTED)
            for path, words in _beyond_restricted(spec, pod)
            if path not in known
        ]
    return violations


def _violation(at: str, path: str, words: str, standard: PodSecurity) -> Problem:
    return Problem(
        "PodSecurityViolation",
        f"{at}: {path}: {words}: the {standard} Pod Security Standard forbids it (the chart's "
        "value podSecurity allows more)",
    )


def _beyond_baseline(pod: Mapping[str, Any], metadata: Mapping[str, Any]) -> _Found:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield f"spec.{field}", "shares a namespace of the node"
    for path, volume in _volumes(pod):
        if "hostPath" in volume:
            yield f"{path}.hostPath", "mounts the node's file system"
    for sysctl in mappings(_mapping(pod.get("securityContext")).get("sysctls")):
        if sysctl.get("name") not in _SAFE_SYSCTLS:
            yield "spec.securityContext.sysctls", f"{sysctl.get('name')} is not a safe sysctl"
    for path, context in _contexts(pod):
        yield from _beyond_baseline_in_context(path, context)
    for path, container in _containers(pod):
        yield from _beyond_baseline_in_container(path, container)
    for name, value in _mapping(metadata.get("annotations")).items():
        if name.startswith(_APPARMOR_ANNOTATION) and not _is_confined(value):
            yield f"metadata.annotations.{name}", "removes the AppArmor profile"


def _is_confined(profile: Any) -> bool:
    return profile in ("", "runtime/default") or str(profile).startswith("localhost/")


def _beyond_baseline_in_context(path: str, context: Mapping[str, Any]) -> _Found:
    for field in ("seccompProfile", "appArmorProfile"):
        if _mapping(context.get(field)).get("type") not in (None, "RuntimeDefault", "Localhost"):
            yield f"{path}.{field}.type", "removes the profile that limits system calls and files"
    if _mapping(context.get("windowsOptions")).get("hostProcess"):
        yield f"{path}.windowsOptions.hostProcess", "runs on the node itself"
    options = _mapping(context.get("seLinuxOptions"))
    if (options.get("type") or "") not in _SELINUX_TYPES:
        yield f"{path}.seLinuxOptions.type", "is not a type for containers"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{path}.seLinuxOptions.{field}", "must be empty"


def _beyond_baseline_in_container(path: str, container: Mapping[str, Any]) -> _Found:
    context = _mapping(container.get("securityContext"))
    at = f"{path}.securityContext"
    if context.get("privileged"):
        yield f"{at}.privileged", "gives all rights on the node"
    if context.get("procMount") not in (None, "", "Default"):
        yield f"{at}.procMount", "unmasks /proc"
    for capability in _added(context):
        if capability not in _SAFE_CAPABILITIES:
            yield f"{at}.capabilities.add", f"{capability} is a right on the node"
    if any(port.get("hostPort") for port in mappings(container.get("ports"))):
        yield f"{path}.ports.hostPort", "takes a port of the node"
    lifecycle = _mapping(container.get("lifecycle"))
    handlers = {name: container.get(name) for name in _PROBES}
    handlers |= {f"lifecycle.{name}": lifecycle.get(name) for name in ("postStart", "preStop")}
    for name, handler in handlers.items():
        for kind in ("httpGet", "tcpSocket"):
            if _mapping(_mapping(handler).get(kind)).get("host"):
                yield f"{path}.{name}.{kind}.host", "makes the node connect to another address"


def _beyond_restricted(pod: Mapping[str, Any], own_container: str) -> _Found:
    for path, volume in _volumes(pod):
        kinds = set(volume) - {"name"}
        if not kinds <= _VOLUME_TYPES:
            yield f"{path}.{min(kinds - _VOLUME_TYPES)}", "is not a type of volume for everyone"
    for path, context in _contexts(pod):
        if context.get("runAsNonRoot") is False:
            yield f"{path}.runAsNonRoot", "must be true"
        if context.get("runAsUser") == 0:
            yield f"{path}.runAsUser", "must not be 0, which is root"
    for path, container in _containers(pod):
        context = _mapping(container.get("securityContext"))
        at = f"{path}.securityContext"
        is_own = path == f"spec.containers[{own_container}]"
        escalation = context.get("allowPrivilegeEscalation", False if is_own else None)
        if escalation is not False:
            yield f"{at}.allowPrivilegeEscalation", "must be false"
        dropped = _mapping(context.get("capabilities")).get("drop", ["ALL"] if is_own else [])
        if not isinstance(dropped, list) or "ALL" not in dropped:
            yield f"{at}.capabilities.drop", "must hold ALL"
        for capability in _added(context):
            if capability != "NET_BIND_SERVICE":
                yield f"{at}.capabilities.add", f"{capability} cannot be added"


def _contexts(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The security contexts of the pod and of all its containers."""
    yield "spec.securityContext", _mapping(pod.get("securityContext"))
    for path, container in _containers(pod):
        yield f"{path}.securityContext", _mapping(container.get("securityContext"))


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _CONTAINERS:
        for container in mappings(pod.get(kind)):
            yield f"spec.{kind}[{container.get('name', '')}]", container


def _volumes(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for volume in mappings(pod.get("volumes")):
        yield f"spec.volumes[{volume.get('name', '')}]", volume


def _added(context: Mapping[str, Any]) -> list[Any]:
    added = _mapping(context.get("capabilities")).get("add")
    return added if isinstance(added, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list that may be anything."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


# sparkConf can ask for volumes as well, which Spark adds to the pods of executors.
_CONF_VOLUMES = "spark.kubernetes.executor.volumes."
_CONF_ANNOTATION = "spark.kubernetes.executor.annotation."


def find_violations_in_conf(spark_conf: Mapping[str, str], allowed: PodSecurity) -> list[Problem]:
    """What Spark's configuration asks for in the pods of executors beyond the standard."""
    if allowed is PodSecurity.PRIVILEGED:
        return []
    violations = []
    for name, value in spark_conf.items():
        kind = name.removeprefix(_CONF_VOLUMES).partition(".")[0]
        if name.startswith(_CONF_VOLUMES) and kind not in _VOLUME_TYPES:
            is_host = kind == "hostPath"
            if is_host or allowed is PodSecurity.RESTRICTED:
                standard = PodSecurity.BASELINE if is_host else PodSecurity.RESTRICTED
                words = f"{kind} is not a volume for everyone"
                violations.append(_violation("spec.sparkConf", name, words, standard))
        annotation = name.removeprefix(_CONF_ANNOTATION)
        if annotation.startswith(_APPARMOR_ANNOTATION) and not _is_confined(value):
            words = "removes the AppArmor profile"
            violations.append(_violation("spec.sparkConf", name, words, PodSecurity.BASELINE))
    return violations
