"""Reads what the API server holds: a stream, whose spec is judged, and its objects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from penstock.api.problem import Problem
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.lenient_fields import count
from penstock.cluster.objects import Claim, Event, Object, StatefulSet
from penstock.cluster.pods import Pod
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.children.revision import resolve
from penstock.controller.kubernetes.api_client import KubernetesReads
from penstock.controller.kubernetes.bounded_objects import SPEC_BYTES
from penstock.controller.operator_settings import Settings
from penstock.controller.situation import ObservedChildren, ObservedStream
from penstock.validation import spec_check
from penstock.validation.rules import spec_size
from penstock.validation.schema_errors import describe_error

T = TypeVar("T", bound=Object)


def parse_stream(raw: Manifest, settings: Settings) -> ObservedStream:
    """A stream with its spec judged, which may wait for the process that judges texts."""
    too_large = spec_size.refusal(count(raw.get(SPEC_BYTES)) or spec_size.measure(raw.get("spec")))
    if too_large is not None:
        return _refused(raw, (too_large,), settings)
    try:
        stream = ContinuousStream.model_validate(settings.stream_defaults.under(raw))
    except ValidationError as error:
        return _refused(raw, tuple(describe_error(error)), settings)
    judged = spec_check.judge(stream.spec, allowed=settings.pod_security)
    errors = tuple(problem for problem in judged if problem.severity == "error")
    warnings = tuple(problem for problem in judged if problem.severity == "warning")
    if stream.metadata.namespace == settings.namespace:
        errors = (_in_the_operators_namespace(stream.metadata.namespace), *errors)
    desired = None if errors else resolve(stream, raw, settings)
    # Deep lists take ten times as much in YAML.
    too_large = None if desired is None else spec_size.refusal(len(desired.document) // 2)
    if too_large is not None:
        return _refused(raw, (too_large,), settings)
    return ObservedStream(
        raw,
        desired,
        errors,
        warnings,
        settings.numbers_interval,
        judged=not any(problem.transient for problem in judged),
    )


def _refused(raw: Manifest, problems: tuple[Problem, ...], settings: Settings) -> ObservedStream:
    """A stream whose spec cannot be read."""
    return ObservedStream(raw, problems=problems, numbers_interval=settings.numbers_interval)


def _in_the_operators_namespace(namespace: str) -> Problem:
    return Problem(
        "OperatorNamespace",
        f"metadata.namespace: {namespace} is the operator's own namespace, where a stream's code "
        "could start a pod with the operator's rights: create the stream in another one",
    )


async def observe_children(
    api: KubernetesReads, key: Key, config_name: str | None = None
) -> ObservedChildren:
    """Reads all objects of a stream, each kind once and all at the same time.

    Executors only while the driver waits for them. `config_name` is the name of the ConfigMap that
    its spec needs.
    """
    driver = naming.driver_name(key.name)
    selector = {naming.LABEL_STREAM: key.name}
    of_driver = {**selector, naming.LABEL_COMPONENT: naming.COMPONENT_DRIVER}
    account, role, binding, policy, claim, owner = await asyncio.gather(
        api.get(kinds.SERVICE_ACCOUNT, key.namespace, driver),
        api.get(kinds.ROLE, key.namespace, driver),
        api.get(kinds.ROLE_BINDING, key.namespace, driver),
        api.get(kinds.NETWORK_POLICY, key.namespace, driver),
        api.get(kinds.CLAIM, key.namespace, naming.checkpoint_claim_name(key.name)),
        api.get(kinds.STATEFUL_SET, key.namespace, driver),
    )
    config_maps, pods = await asyncio.gather(
        api.list(kinds.CONFIG_MAP, key.namespace, selector),
        api.list(kinds.POD, key.namespace, of_driver),
    )
    if owner is not None and not StatefulSet(owner).scaled_to_zero:
        pods += await _without_labels(api, kinds.POD, key, naming.driver_pod_name(key.name), pods)
    if config_name is not None:
        config_maps += await _without_labels(api, kinds.CONFIG_MAP, key, config_name, config_maps)
    children = ObservedChildren(
        service_account=_parsed(Object, account),
        role=_parsed(Object, role),
        role_binding=_parsed(Object, binding),
        network_policy=_parsed(Object, policy),
        claim=_parsed(Claim, claim),
        stateful_set=_parsed(StatefulSet, owner),
        config_maps=tuple(map(Object, config_maps)),
        pods=tuple(map(Pod, pods)),
    )
    if _waits_for_executors(children):
        of_executors = {**selector, naming.LABEL_COMPONENT: naming.COMPONENT_EXECUTOR}
        executors = await api.list(kinds.POD, key.namespace, of_executors)
        children = replace(children, pods=(*children.pods, *map(Pod, executors)))
    warnings = [
        warning for uid in _waited_for(children) for warning in await _warnings(api, key, uid)
    ]
    account_of_pod = await _driver_account(api, key, children)
    return replace(children, events=tuple(warnings), driver_account=account_of_pod)


async def _without_labels(
    api: KubernetesReads, kind: Kind, key: Key, name: str, by_labels: Sequence[Manifest]
) -> list[Manifest]:
    """An object that was not found by its labels, since somebody has removed them."""
    if any(Object(manifest).name == name for manifest in by_labels):
        return []
    there = await api.get(kind, key.namespace, name)
    return [] if there is None else [there]


def _parsed(of: type[T], manifest: Manifest | None) -> T | None:
    return None if manifest is None else of(manifest)


async def _driver_account(
    api: KubernetesReads, key: Key, children: ObservedChildren
) -> Object | None:
    """The ServiceAccount of the driver's pod: the stream's own, or one that the spec names."""
    pod, own = children.driver_pod, children.service_account
    if pod is None or not pod.account_name:
        return None
    if own is not None and own.name == pod.account_name:
        return own
    return _parsed(Object, await api.get(kinds.SERVICE_ACCOUNT, key.namespace, pod.account_name))


def _waits_for_executors(children: ObservedChildren) -> bool:
    pod = children.driver_pod
    report = pod.report if pod is not None else None
    return report is not None and report.state is QueryState.WAITING_FOR_CORES


def _waited_for(children: ObservedChildren) -> list[str]:
    """The UIDs of the objects that keep the driver from running, if it does not run."""
    owner, pod, claim = children.stateful_set, children.driver_pod, children.claim
    if owner is None or (pod is not None and pod.started):
        return []
    pending = claim is not None and claim.phase == "Pending"
    uids = (owner.uid if pod is None else pod.uid, claim.uid if claim and pending else "")
    return [uid for uid in uids if uid]


async def _warnings(api: KubernetesReads, key: Key, uid: str) -> list[Event]:
    """The warnings about an object; none if they cannot be read, for they only explain."""
    about = {"regarding.uid": uid, "type": "Warning"}
    try:
        events = await api.list(kinds.EVENT, key.namespace, {}, about)
        return list(map(Event.parse, events))
    except ApiError:
        return []
