"""The arguments of the in-tree plugins, with kube-scheduler's defaults.

A default that depends on a feature gate is that of v1.37 with its gates as they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, Field, SecretStr

from bayplan.api import pod_spec
from bayplan.config.scalars import Duration, Int32, Int64, Items, Text, zero_means
from bayplan.config.types import Wire
from bayplan.support.go_layouts import RFC3339


class DefaultPreemptionArgs(Wire):
    """How many nodes a dry run of preemption looks at, as a percentage and at least.

    PreemptionToleration takes the same.
    """

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def enough_candidates(self, nodes: int) -> int:
        """How many candidates are enough among ``nodes`` nodes; may be more than these."""
        share = nodes * self.min_candidate_nodes_percentage // 100
        return max(share, self.min_candidate_nodes_absolute)


class InterPodAffinityArgs(Wire):
    """The weight of required affinity of existing Pods when nodes are scored."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class Requirement(Wire):
    """A requirement of a selector on one key."""

    key: str = ""
    operator: str = ""
    values: Items[Text] = ()


class NodeSelectorTerm(Wire):
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: Items[Requirement] = ()
    match_fields: Items[Requirement] = ()


class NodeSelector(Wire):
    """Terms of which one must hold."""

    node_selector_terms: Items[NodeSelectorTerm] = ()


class PreferredSchedulingTerm(Wire):
    """A term, and the score added to nodes that match the term."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire):
    """Node affinity as in a Pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Items[PreferredSchedulingTerm] = ()


class NodeAffinityArgs(Wire):
    """Affinity that every Pod of the profile has in addition to the Pod's own affinity."""

    added_affinity: NodeAffinity | None = None

    def node_affinity(self) -> pod_spec.NodeAffinity | None:
        """The added affinity as the structs that Pods have."""
        if self.added_affinity is None:
            return None
        return msgspec.convert(_wire(self.added_affinity), pod_spec.NodeAffinity)


class ResourceSpec(Wire):
    """A resource and its weight in a score."""

    name: str = ""
    weight: Annotated[Int64, zero_means(1)] = 1


def _cpu_and_memory(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return resources or (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


ScoredResources = Annotated[Items[ResourceSpec], AfterValidator(_cpu_and_memory)]


class UtilizationShapePoint(Wire):
    """The score (0 to 10) at a utilization (0 to 100 percent)."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Wire):
    """A piecewise linear function from utilization to score."""

    shape: Items[UtilizationShapePoint] = ()


class ScoringStrategy(Wire):
    """How NodeResourcesFit scores: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: ScoredResources = _cpu_and_memory(())
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(Wire):
    """Resources that the filter leaves out, and how nodes are scored."""

    ignored_resources: Items[Text] = ()
    ignored_resource_groups: Items[Text] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class NodeResourcesBalancedAllocationArgs(Wire):
    """The resources whose use is to be even."""

    resources: ScoredResources = _cpu_and_memory(())


class LabelSelector(Wire):
    """A label selector, which default constraints must not have."""

    match_labels: dict[str, Text] = Field(default_factory=dict)
    match_expressions: Items[Requirement] = ()


class TopologySpreadConstraint(Wire):
    """A topology spread constraint as in a Pod."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: Items[Text] = ()


class PodTopologySpreadArgs(Wire):
    """Constraints for the Pods that have none: the scheduler's own (System) or a list (List)."""

    default_constraints: Items[TopologySpreadConstraint] = ()
    defaulting_type: Annotated[str, zero_means("System")] = "System"

    def constraints(self) -> tuple[pod_spec.TopologySpreadConstraint, ...]:
        """The default constraints as the structs that Pods have."""
        return tuple(
            msgspec.convert(_wire(constraint), pod_spec.TopologySpreadConstraint)
            for constraint in self.default_constraints
        )


def _emptier_is_better(
    shape: tuple[UtilizationShapePoint, ...] | None,
) -> tuple[UtilizationShapePoint, ...] | None:
    ends = (UtilizationShapePoint(score=10), UtilizationShapePoint(utilization=100))
    return shape or ends


class VolumeBindingArgs(Wire):
    """How long to wait for volumes, in seconds, and the score by how full storage would be.

    No shape means no score: the feature gate StorageCapacityScoring is off.
    """

    bind_timeout_seconds: Int64 = 600
    shape: Annotated[Items[UtilizationShapePoint] | None, AfterValidator(_emptier_is_better)] = (
        _emptier_is_better(None)
    )


GROUP_OWNERS = ("JobSet", "LeaderWorkerSet", "Job")
"""The kinds that groups can be inferred from."""


class CoschedulingArgs(Wire):
    """The defaults of groups: seconds until they give up, seconds between attempts, and a share.

    The share is that of missing Pods below which scheduler-plugins lets a group wait on; here no
    group holds anything while it waits, so it says nothing. The levels are node labels, the widest
    first; the kinds are those of owners whose Pods are a group without a PodGroup. A group that
    stays below its minimum for ``evict_incomplete_after`` gives up its nodes; 0 switches that off.
    These three arguments are not in scheduler-plugins.
    """

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10
    topology_levels: Items[Text] = ()
    infer_groups: Items[Text] = ()
    evict_incomplete_after: Duration = 0.0


class PastUseArgs(Wire):
    """How past use counts: half after each ``half_life``; weights change every ``interval``."""

    half_life: Duration = 7 * 86400.0
    interval: Duration = 600.0


class FairShareArgs(Wire):
    """How queues take turns.

    An attempt counts as much as ``attempt_share`` percent of a queue's share, divided by its
    weight. A Pod that has waited for ``ageing`` is ordered as if it had the next higher priority
    that waits in its queue; 0 switches that off. ``past_use`` lowers the weights of queues by what
    they have used before; without it, only the present counts.
    """

    attempt_share: Int32 = 1
    ageing: Duration = 0.0
    past_use: PastUseArgs | None = None


class BackfillArgs(Wire):
    """A group gets room reserved once its oldest Pod is ``reserve_after`` seconds old."""

    reserve_after: Duration = 600.0


class Query(Wire):
    """PromQL for the mean and the standard deviation of a resource, as shares of the capacity."""

    mean: str = ""
    deviation: str = ""


def _over_15_minutes(rule: str) -> Query:
    # Without "and" a node that is gone would have a mean for 15 minutes more.
    return Query(
        mean=f"avg_over_time({rule}[15m]) and {rule}",
        deviation=f"stddev_over_time({rule}[15m]) and {rule}",
    )


class LoadQueries(Wire):
    """The queries by resource; by default of the recording rules of the node exporter's mixin."""

    cpu: Query = _over_15_minutes("instance:node_cpu:ratio")
    memory: Query = _over_15_minutes("instance:node_memory_utilisation:ratio")


class MetricProvider(Wire):
    """Where the load of nodes is read, without a ``watcher_address``.

    The label that has a node's name and the queries are not in scheduler-plugins.
    """

    type: str = ""
    address: str | None = None
    token: SecretStr | None = None
    insecure_skip_verify: bool | None = None
    node_label: Annotated[str, zero_means("instance")] = "instance"
    queries: LoadQueries = LoadQueries()


class SourceType(StrEnum):
    """The API that a source of load speaks."""

    METRICS_API = "KubernetesMetricsServer"
    PROMETHEUS = "Prometheus"
    LOAD_WATCHER = "load-watcher"


@dataclass(frozen=True)
class LoadSource:
    """A source of measured load; plugins with equal ones share what it says.

    Attributes:
        address: a URL; empty for metrics.k8s.io, which the API server has.
        token: bearer token; empty for none.
        verify: whether the server's certificate is checked.
        node_label: of PromQL's answers, the label that has the node's name.
        queries: PromQL.
    """

    type: SourceType
    address: str = ""
    token: str = field(default="", repr=False)
    verify: bool = True
    node_label: str = ""
    queries: LoadQueries | None = None

    def __str__(self) -> str:
        return _without_user(self.address) if self.address else "metrics.k8s.io"


def _without_user(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True)
class PriceSource:
    """A Prometheus with prices of nodes; fields as in `LoadSource`."""

    address: str
    token: str = field(default="", repr=False)
    verify: bool = True
    node_label: str = ""
    query: str = ""

    def __str__(self) -> str:
        return f"prices of {_without_user(self.address)}"


EXACT = "exact"


class LoadArgs(Wire):
    """Where the load of nodes is read; ``compat`` "exact" for scheduler-plugins' scores without it.

    The latter is not in scheduler-plugins.
    """

    watcher_address: str | None = None
    metric_provider: MetricProvider = MetricProvider()
    compat: str = ""

    @property
    def exact(self) -> bool:
        """Whether a node without measured load scores as in scheduler-plugins."""
        return self.compat == EXACT

    def load_source(self) -> LoadSource:
        """What the arguments say, with the defaults of scheduler-plugins."""
        provider = self.metric_provider
        if self.watcher_address:
            return LoadSource(SourceType.LOAD_WATCHER, self.watcher_address.rstrip("/"))
        if provider.type != SourceType.PROMETHEUS:
            return LoadSource(SourceType.METRICS_API)
        return LoadSource(
            SourceType.PROMETHEUS,
            (provider.address or "http://prometheus-k8s:9090").rstrip("/"),
            provider.token.get_secret_value() if provider.token else "",
            not provider.insecure_skip_verify,
            provider.node_label,
            provider.queries,
        )


_POSITIVE_PERCENT = AfterValidator(lambda given: given if given > 0 else 40)
_NOT_NEGATIVE = AfterValidator(lambda given: given if given >= 0 else 1.0)


class TargetLoadPackingArgs(LoadArgs):
    """The CPU load to fill nodes to, in percent, and the load that is expected of a Pod.

    That is a container's limit, else its request times the multiplier, else the default.
    """

    target_utilization: Annotated[Int64, _POSITIVE_PERCENT] = 40
    default_requests: Mapping[str, str | int | float] = {"cpu": "1000m"}
    default_requests_multiplier: Annotated[str, zero_means("1.5")] = "1.5"


class LoadVariationRiskBalancingArgs(LoadArgs):
    """How much the deviation counts: its root by the sensitivity, multiplied by the margin."""

    safe_variance_margin: Annotated[float, _NOT_NEGATIVE] = 1.0
    safe_variance_sensitivity: Annotated[float, _NOT_NEGATIVE] = 1.0


RISK_LIMIT_WEIGHT = 0.5
"""Of a resource that the arguments do not name."""


class LowRiskOverCommitmentArgs(LoadArgs):
    """How much the risk in limits weighs, by resource, from 0 to 1; the rest is that in the load.

    The deviation of the load is multiplied by the root of the smoothing window.
    """

    risk_limit_weights: dict[str, float] = Field(default_factory=dict)
    smoothing_window_size: Annotated[
        Int64, AfterValidator(lambda given: given if given > 0 else 5)
    ] = 5


class PowerModel(Wire):
    """A node's power at a load of x percent: k0 + k1 e^(k2 x)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArgs(LoadArgs):
    """The power model by node; by default the file in the variable NODE_POWER_MODEL."""

    node_power_model: dict[str, PowerModel] | None = None


class LeastFragmentationArgs(Wire):
    """Which resources are not to be fragmented, and how their use is judged.

    Gains that differ by less than ``grain`` devices are equal. Typical are the most frequent Pods
    that make up ``typical_share`` of all, which depends on the devices where it is absent; a Pod
    that waits no more counts half after each half life.
    """

    resources: Items[Text] = ("nvidia.com/gpu",)
    grain: float = 0.04
    half_life_seconds: Int64 = 86400
    typical_share: float | None = None


def _volcanos() -> dict[str, dict[str, str]]:
    return {"nvidia.com/gpu": {"cpu": "1", "memory": "1G"}}


class ReservedForArgs(Wire):
    """By scarce resource, what a node keeps free beside each free unit of it.

    Amounts are quantities of the API. The defaults are those of Volcano's ``proportional``.
    """

    resources: dict[str, dict[str, Text]] = Field(default_factory=_volcanos)


class PromqlPrices(Wire):
    """A Prometheus that knows prices; the default query is for OpenCost's metrics."""

    address: str = ""
    token: SecretStr | None = None
    insecure_skip_verify: bool = False
    node_label: Text = "node"
    query: Text = "max by (node) (node_total_hourly_cost)"

    def source(self) -> PriceSource:
        """What the arguments say."""
        token = self.token.get_secret_value() if self.token else ""
        address, verify = self.address.rstrip("/"), not self.insecure_skip_verify
        return PriceSource(address, token, verify, self.node_label, self.query)


class PriceArgs(Wire):
    """Where the hourly price of a node stands: an annotation, a label, its domains, or PromQL.

    Without any, the annotation ``bayplan.dev/hourly-price``. Without a ``default`` a node without a
    price counts as the most expensive one.
    """

    annotation: str = ""
    label: str = ""
    per_domain: dict[str, float] = Field(default_factory=dict)
    promql: PromqlPrices | None = None
    default: float | None = None


class TransferPrice(Wire):
    """What a GB between two domains costs, either way."""

    from_: Text = Field(default="", alias="from")
    to: Text = ""
    cost: float = 0.0


class TransferArgs(Wire):
    """What a GB costs: within the finest domain, within the coarsest, and anywhere else.

    Domains that the matrix names cost what it says.
    """

    same_finest: float = 0.0
    same_coarsest: float = 0.02
    other: float = 0.08
    matrix: Items[TransferPrice] = ()


class BudgetArgs(Wire):
    """Which annotation of namespaces, Queues and groups says what Pods may cost an hour."""

    annotation: Text = "bayplan.dev/hourly-budget"


class DomainCostArgs(Wire):
    """Prices of nodes, and the difference an hour that is worth 100 points at least.

    ``topology_keys`` are the labels with a node's domains, coarse to fine. Traffic costs nothing
    without ``transfer``, and budgets are not read without ``budget``.
    """

    topology_keys: Items[Text] = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
    price: PriceArgs = PriceArgs()
    transfer: TransferArgs | None = None
    budget: BudgetArgs | None = None
    significant: float = 0.01


class FailoverArgs(Wire):
    """Room is kept for the loss of a domain, for Pods of at least a priority."""

    domain: str = ""
    priority_at_least: Int32 = 0


class BlastRadiusArgs(Wire):
    """Room is kept where ``failover`` names a label of nodes."""

    failover: FailoverArgs = FailoverArgs()


class AllocatableResource(Wire):
    """A resource and its weight."""

    name: str = ""
    weight: Int64 = 0


_CORES_AS_MEMORY = (
    AllocatableResource(name="cpu", weight=1 << 20),
    AllocatableResource(name="memory", weight=1),
)


class NodeResourcesAllocatableArgs(Wire):
    """Whether small nodes (Least) or large ones (Most) are preferred, and what counts."""

    mode: Annotated[str, zero_means("Least")] = "Least"
    resources: Annotated[
        Items[AllocatableResource], AfterValidator(lambda given: given or _CORES_AS_MEMORY)
    ] = _CORES_AS_MEMORY


class NodeMetadataArgs(Wire):
    """The label or annotation to read, the type of its value, and the preferred values."""

    metadata_key: str = ""
    metadata_source: str = ""
    metadata_type: str = ""
    scoring_strategy: str = ""
    timestamp_format: Annotated[str, zero_means(RFC3339)] = RFC3339


class ZoneScoring(Wire):
    """How NodeResourceTopologyMatch scores, and the weights of resources; 1 for any other one."""

    type: str = ""
    resources: ScoredResources = _cpu_and_memory(())


class NodeResourceTopologyCache(Wire):
    """The Pods that objects must show before an object is believed.

    ``informer_mode`` says nothing here: Pods that have ended are not watched.
    """

    foreign_pods_detect: Annotated[str, zero_means("All")] = "All"
    resync_method: Annotated[str, zero_means("Autodetect")] = "Autodetect"
    informer_mode: Annotated[str, zero_means("Dedicated")] = "Dedicated"
    resync_scope: Annotated[str, zero_means("All")] = "All"


class NodeResourceTopologyMatchArgs(Wire):
    """How zones are scored, and whether Pods keep room in all zones until an object shows the Pods.

    They do if ``cache_resync_period_seconds`` is more than 0 and nodes with Pods that are not bound
    yet are not left out instead (``discard_reserved_nodes``).
    """

    scoring_strategy: ZoneScoring = ZoneScoring(type="LeastAllocated")
    cache_resync_period_seconds: Int64 = 0
    discard_reserved_nodes: bool = False
    cache: NodeResourceTopologyCache = NodeResourceTopologyCache()
    preemption_mode: Annotated[str, zero_means("Disabled")] = "Disabled"

    @property
    def over_reserves(self) -> bool:
        """Whether Pods keep room in all zones until the object shows them."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes


_DEFAULT_NAMESPACE = ("default",)
Namespaces = Annotated[Items[Text], AfterValidator(lambda given: given or _DEFAULT_NAMESPACE)]


class TopologicalSortArgs(Wire):
    """The namespaces with AppGroups; of several ones of a name, that of the first counts."""

    namespaces: Namespaces = _DEFAULT_NAMESPACE


class NetworkOverheadArgs(Wire):
    """The namespaces with AppGroups and the NetworkTopology, and the name of the costs there."""

    namespaces: Namespaces = _DEFAULT_NAMESPACE
    weights_name: Text = "UserDefined"
    network_topology_name: Text = "nt-default"


class DynamicResourcesArgs(Wire):
    """Time limits, in seconds, of filtering a node (0 for none) and of waiting for devices."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration = 600.0


def _wire(model: Wire) -> object:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
