"""Checks of what all streams share: the resource type, the operator, rights, name servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from penstock import __version__
from penstock.api.v1alpha1.status import StreamStatus
from penstock.client.cluster_facts import ClusterFacts, OperatorFacts
from penstock.client.doctor.finding import Finding, Severity
from penstock.client.formatting import age

_APPLY_CRD = "penstock crd | kubectl apply --server-side -f -"
# Reasons of a status that waits for the network.
_FROM_DNS = frozenset({"BrokerUnreachable", "HostUnknown", "ConnectionFailed", "Timeout"})
_MAX_NAMED = 5
# Four times as long as another pod takes to lead, by default (leader_election.py).
_LEASE_OVERDUE = timedelta(minutes=1)


def resource_type(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the API server knows ContinuousStream, with the fields of this version."""
    if not facts.serves_streams:
        yield Finding(
            Severity.PROBLEM,
            "cluster",
            "CrdMissing",
            "The API server does not know ContinuousStream: its CustomResourceDefinition is not "
            "installed",
            "Install it with the chart, or by hand.",
            _APPLY_CRD,
        )
        return
    if facts.crd_properties is None:
        return
    ours = {str(field.alias) for field in StreamStatus.model_fields.values()}
    missing = sorted(ours - facts.crd_properties)
    if missing:
        yield Finding(
            Severity.WARNING,
            "cluster",
            "CrdOutdated",
            f"The installed CustomResourceDefinition is older than penstock {__version__}: it "
            f"drops the status fields {', '.join(missing)}",
            "Apply the CustomResourceDefinition of the operator's version.",
            _APPLY_CRD,
        )


def operator_runs(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether an operator watches the streams' namespaces."""
    if facts.operators is None:
        return
    if not facts.operators:
        yield Finding(
            Severity.PROBLEM,
            "operator",
            "OperatorMissing",
            "No Deployment has the labels of the operator (app.kubernetes.io/name=penstock)",
            "Install the chart. Running streams keep running; nothing new is started.",
            "helm list -A",
        )
    for operator in facts.operators:
        if not operator.ready:
            yield _not_ready(operator)
    in_use = {(stream.key.namespace, stream.resource.class_name) for stream in facts.streams}
    for namespace, class_name in sorted(in_use) if facts.operators else ():
        managing = facts.operators_of(namespace, class_name)
        if not any(operator.settings.class_name == class_name for operator in facts.operators):
            yield _class_missing(facts.operators, namespace, class_name)
        elif not managing:
            yield _not_watched(facts.operators, namespace, class_name)
        elif len(managing) > 1 and not any(operator.selects_unknown for operator in managing):
            names = ", ".join(str(operator.key) for operator in managing)
            yield Finding(
                Severity.PROBLEM,
                f"namespace {namespace}",
                "TwoOperators",
                f"More than one operator watches the namespace {namespace}: {names}",
                "Give each of them namespaces (watchNamespaces) or a class (className) of its own.",
                explains=frozenset({"ChangedByOthers"}),
            )


def _not_watched(operators: tuple[OperatorFacts, ...], namespace: str, class_name: str) -> Finding:
    selectors = {
        operator.namespace_selector
        for operator in operators
        if operator.settings.class_name == class_name
    }
    labels = " or ".join(sorted(filter(None, selectors)))
    return Finding(
        Severity.PROBLEM,
        f"namespace {namespace}",
        "NamespaceNotWatched",
        f"No operator watches the namespace {namespace}",
        f"Give it the labels that an operator selects: {labels}."
        if labels
        else "Add it to the chart's value watchNamespaces.",
        f"kubectl get namespace {namespace} --show-labels" if labels else "helm list -A",
    )


def _class_missing(
    operators: tuple[OperatorFacts, ...], namespace: str, class_name: str
) -> Finding:
    theirs = ", ".join(f"{it.key}: {it.settings.class_name or 'no class'}" for it in operators)
    asked = f"have the className {class_name}" if class_name else "name no class"
    return Finding(
        Severity.PROBLEM,
        f"namespace {namespace}",
        "ClassMissing",
        f"Streams in the namespace {namespace} {asked}, and no operator acts on those ({theirs})",
        "Install a release with the chart's value className of the streams, or delete the streams "
        "and apply them again with another className: a retained checkpoint continues.",
        "kubectl get cstream -A -o custom-columns=NAMESPACE:.metadata.namespace,"
        "NAME:.metadata.name,CLASS:.spec.className",
    )


def _not_ready(operator: OperatorFacts) -> Finding:
    key = operator.key
    waiting = next(filter(None, (pod.waiting_reason for pod in operator.pods)), None)
    if waiting is not None:
        why = f"{waiting.reason}: {waiting.message}"
    elif not operator.pods:
        why = "it has no pod (is it scaled to 0?)"
    else:
        names = ", ".join(pod.name for pod in operator.pods)
        why = f"no container of {names} is ready"
    return Finding(
        Severity.PROBLEM,
        f"operator {key}",
        "OperatorNotReady",
        f"The operator does not run: {why}. Running streams keep running; edits and failures "
        "that need the operator wait",
        "Start the operator.",
        f"kubectl describe deployment {key.name} -n {key.namespace}",
    )


def operator_leads(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether one of the operator's pods leads: the others only wait."""
    for operator in facts.operators or ():
        renewed = operator.lease.renewed if operator.lease else None
        if operator.lease is None or renewed is None or not operator.ready:
            continue
        if facts.now - renewed < max(_LEASE_OVERDUE, 4 * operator.lease.lasts):
            continue
        holder = operator.lease.holder or "nobody"
        key = operator.key
        yield Finding(
            Severity.PROBLEM,
            f"operator {key}",
            "NoLeader",
            f"No pod of the operator leads: the Lease {operator.lease_name} was last renewed "
            f"{age(renewed, facts.now)} ago, by {holder}",
            "See the log of the operator's pods.",
            f"kubectl logs -n {key.namespace} deployment/{key.name} --all-pods --tail=100",
        )


def operator_rights(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the operator may do what it has to."""
    for operator in facts.operators or ():
        missing = facts.missing_rights.get(operator.service_account, ())
        if missing:
            some = ", ".join(map(str, missing[:_MAX_NAMED]))
            more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
            yield Finding(
                Severity.PROBLEM,
                f"operator {operator.key}",
                "OperatorRightsMissing",
                f"The operator may not: {some}{more}",
                "Restore the ClusterRole and its bindings: helm upgrade does.",
                f"kubectl auth can-i --list --as={operator.service_account}",
                explains=frozenset({"ReconcileFailed", "ApplyRefused"}),
            )


def name_servers(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the cluster's name servers have a ready pod."""
    if facts.dns_endpoints == 0:
        yield Finding(
            Severity.PROBLEM,
            "cluster",
            "NameServersDown",
            "The Service kube-dns has no ready endpoint: no name resolves in any pod",
            "Repair CoreDNS.",
            "kubectl get pods -n kube-system -l k8s-app=kube-dns -o wide",
            explains=_FROM_DNS,
        )


def versions(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether operator, drivers and this command are of the same version."""
    for operator in facts.operators or ():
        if operator.version and operator.version != __version__:
            yield Finding(
                Severity.WARNING,
                f"operator {operator.key}",
                "VersionsApart",
                f"The operator is version {operator.version}, this command {__version__}",
                "Use the command of the operator's version.",
            )
    for stream in facts.streams:
        operator_versions = {
            operator.version
            for operator in facts.operators_of(stream.key.namespace, stream.resource.class_name)
        } - {""}
        inside = stream.inside
        if inside is not None and operator_versions and inside.version not in operator_versions:
            yield Finding(
                Severity.WARNING,
                str(stream.key),
                "VersionsApart",
                f"The driver's image has version {inside.version}, the operator is version "
                f"{', '.join(sorted(operator_versions))}",
                "Set spec.image, or the chart's value sparkImage, to an image of the operator's "
                "version.",
                f"kubectl edit cstream {stream.key.name} -n {stream.key.namespace}",
            )


def own_rights(facts: ClusterFacts) -> Iterator[Finding]:
    """What the person who asks may not read, and so is not judged."""
    missing = facts.missing_rights.get("", ())
    if missing:
        yield Finding(
            Severity.NOT_JUDGED,
            "your rights",
            "NotAllowed",
            f"You may not {', '.join(map(str, missing))}",
            "Ask for the rights that docs/on-call.md lists.",
        )


def not_read(facts: ClusterFacts) -> Iterator[Finding]:
    for fact in facts.not_read:
        yield Finding(
            Severity.NOT_JUDGED, "cluster", "NotJudged", f"{fact.what} cannot be read: {fact.why}"
        )
    for stream in facts.streams:
        for fact in stream.not_read:
            yield Finding(
                Severity.NOT_JUDGED,
                str(stream.key),
                "NotJudged",
                f"{fact.what} cannot be read: {fact.why}",
            )
