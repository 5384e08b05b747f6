"""The operator's settings: the one file that it reads. Pure.

The chart's values have the same names. `make generate` writes from here the values' schema,
defaults and comments, and which of them are in the file.
"""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS
from penstock.contract.stream_defaults import ALLOWED, NO_DEFAULTS, StreamDefaults

_IN_A_LABEL = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = "([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?"
_CONFIG = ConfigDict(
    alias_generator=lambda name: to_camel(name).replace("Qps", "QPS"),
    validate_by_name=True,
    extra="forbid",
    use_attribute_docstrings=True,
)

NotEmpty = Annotated[str, StringConstraints(min_length=1)]
LabelKey = Annotated[str, StringConstraints(pattern=f"^{_PREFIX}{_IN_A_LABEL}$")]
LabelValue = Annotated[str, StringConstraints(pattern=f"^({_IN_A_LABEL})?$")]
ClassName = Annotated[
    str, StringConstraints(max_length=63, pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")
]
Count = Annotated[int, Field(ge=1, le=10_000)]


class PodSecurity(StrEnum):
    """The Pod Security Standards."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    PRIVILEGED = "privileged"


class NetworkPolicyPeer(TypedDict, total=False):
    """One of Kubernetes' NetworkPolicyPeers."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    namespaceSelector: dict[str, Any]
    podSelector: dict[str, Any]
    ipBlock: dict[str, Any]


_VALUES_NEEDED: JsonDict = {
    "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}},
    "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
}


@dataclass(frozen=True, config=ConfigDict(**_CONFIG, json_schema_extra=_VALUES_NEEDED))
class LabelRequirement:
    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[LabelValue, ...] = ()

    def __post_init__(self) -> None:
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values: name some")

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case _:
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


@dataclass(frozen=True, config=_CONFIG)
class LabelSelector:
    """A LabelSelector of Kubernetes. As text it is what kubectl --selector takes."""

    match_labels: dict[LabelKey, LabelValue] = field(default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = ()

    def __str__(self) -> str:
        labels = (f"{key}={value}" for key, value in self.match_labels.items())
        return ",".join([*labels, *map(str, self.match_expressions)])


@dataclass(frozen=True, config=_CONFIG)
class ElectionTimes:
    """Raises ValueError where two operators could write, or none could renew in time."""

    lease_duration_seconds: Annotated[int, Field(ge=3, le=600)] = 15
    """Without a renewal for so long, another one takes over."""
    renew_deadline_seconds: Annotated[int, Field(ge=2, le=600)] = 10
    """Without a renewal for so long, the one that acts stops to write. Shorter than
    leaseDurationSeconds."""
    retry_period_seconds: Annotated[int, Field(ge=1, le=600)] = 2
    """How often the Lease is renewed, or asked for. Shorter than renewDeadlineSeconds."""

    def __post_init__(self) -> None:
        lease, renew = self.lease_duration_seconds, self.renew_deadline_seconds
        if not lease > renew > self.retry_period_seconds:
            raise ValueError(
                "leaseDurationSeconds must be longer than renewDeadlineSeconds, and that longer "
                f"than retryPeriodSeconds, not {lease}, {renew} and {self.retry_period_seconds}"
            )


@dataclass(frozen=True, config=_CONFIG)
class QueueLimits:
    """What the reconciles of all streams, of one namespace's and of one stream may take."""

    max_concurrent_reconciles: Count = 64
    """How many streams the operator reconciles at once. Its requests to the API server are up to 64
    at once, and have no other limit; docs/capacity.md."""
    max_concurrent_reconciles_per_namespace: Count = 8
    """How many of those may be of one namespace, so that one tenant's streams do not delay all
    others."""
    stream_qps: Annotated[float, Field(gt=0, le=1000)] = 0.5
    """How often one stream is reconciled in a second, however often its pods change. Edits have a
    rate of their own, which is as high."""
    stream_burst: Count = 5
    """How many times at once, after the stream was left alone for a while."""


@dataclass(frozen=True, config=_CONFIG)
class NetworkPolicies:
    enabled: bool = True
    """A NetworkPolicy for the operator and for each stream: only a stream's own pods reach Spark's
    ports. It has an effect where the cluster's network enforces such policies."""
    metrics_from: tuple[NetworkPolicyPeer, ...] = ()
    """The NetworkPolicyPeers that may read metrics; empty means everyone. For example
    [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]."""


def _stream_defaults(value: Any) -> Any:
    return StreamDefaults(value) if isinstance(value, dict) else value


@dataclass(frozen=True, config=_CONFIG)
class OperatorSettings:
    """What the cluster's administrator sets for all streams; docs/security.md says what for."""

    spark_image: NotEmpty
    """Image of driver and executors for streams that name none (spec.image)."""
    spark_image_max_unavailable: Count = 3
    """How many of them get a new sparkImage at the same time. Once one that was Ready is not with
    the new image, no more do; docs/operate.md#a-new-default-image."""
    stream_defaults: Annotated[
        StreamDefaults,
        BeforeValidator(_stream_defaults),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    name: {"type": "array" if name == "imagePullSecrets" else "object"}
                    for name in ALLOWED
                },
            }
        ),
    ] = NO_DEFAULTS
    """Fields of a stream's spec, for the streams that do not set them: imagePullSecrets, checkpoint
    (the storage class, or an object store), driver and executor (resources, podTemplate),
    sparkConf. They reach a stream with its next pod, so a change restarts nothing;
    docs/install.md#defaults-for-streams."""
    leader_election: ElectionTimes = ElectionTimes()
    """How the operators of a release elect the one that acts, in seconds: 15, 10 and 2 are those of
    Kubernetes' own components. Raise them where the API server answers slowly."""
    watch_namespaces: tuple[NotEmpty, ...] = ()
    """Namespaces whose streams are looked after; empty means all. Where the list is known, name
    them: the operator then has no rights anywhere else. Each must exist before the chart is
    installed."""
    watch_namespace_selector: LabelSelector = LabelSelector()
    """Or the labels of these namespaces, as a LabelSelector, such as matchLabels: {streams: "yes"}.
    The operator has its rights in all namespaces then; docs/install.md#namespaces-by-label."""
    class_name: ClassName = ""
    """The class of this release: its operator acts on the streams with this spec.className, and on
    no other. Empty: on those without one. Two releases side by side differ in this or in
    namespaces, and only the first has crds.install; docs/how-to/two-releases.md."""
    numbers_interval_seconds: Annotated[int, Field(ge=NUMBERS_INTERVAL_SECONDS, le=3600)] = (
        NUMBERS_INTERVAL_SECONDS
    )
    """How often the status of a running stream gets new numbers (epoch, lag, offsets), if nothing
    else changes. Whatever else changes is written at once, and the drivers' metrics are newer.
    Drivers report every 30 s, so less is refused. With more than 1,000 streams it is rarer: with
    3,000, every 90 s."""
    work_queue: QueueLimits = QueueLimits()
    """What the reconciles may take."""
    pod_security: PodSecurity = PodSecurity.RESTRICTED
    """The Pod Security Standard that pod templates of streams must meet: restricted, baseline or
    privileged. Penstock's own settings are always restricted."""
    fixed_user: bool = True
    """Drivers run as user and group 185, those of their image. false: as whom the cluster chooses
    for their namespace, as OpenShift does; docs/install.md."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who reaches the pods."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Of Penstock's own log: DEBUG, INFO, WARNING or ERROR."""

    def __post_init__(self) -> None:
        if self.watch_namespaces and str(self.watch_namespace_selector):
            raise ValueError(
                "watchNamespaces and watchNamespaceSelector exclude each other: remove one"
            )

    @property
    def numbers_interval(self) -> timedelta:
        return timedelta(seconds=self.numbers_interval_seconds)
