"""The values of the in-tree plugins' arguments, judged as kube-scheduler judges them.

Answers to `pkg/scheduler/apis/config/validation/validation_pluginargs.go`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bayplan.api import quantity
from bayplan.api.selectors import integer
from bayplan.config import args, names
from bayplan.config.decode import suggestion
from bayplan.config.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


@singledispatch
def validate_args(_given: object, _path: str) -> Iterator[FieldError]:
    """What is wrong with a plugin's arguments, which stand at `path`.

    Arguments of plugins that are not in-tree are judged by their own model alone.
    """
    yield from ()


@validate_args.register(args.DefaultPreemptionArgs)
def _(given: args.DefaultPreemptionArgs, path: str) -> Iterator[FieldError]:
    percentage, absolute = given.min_candidate_nodes_percentage, given.min_candidate_nodes_absolute
    yield from in_range(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
    yield from _not_negative(f"{path}.minCandidateNodesAbsolute", absolute)
    if percentage == 0 and absolute == 0:
        yield FieldError(
            f"{path}.minCandidateNodesPercentage",
            "must not be 0 together with minCandidateNodesAbsolute",
        )


@validate_args.register(args.InterPodAffinityArgs)
def _(given: args.InterPodAffinityArgs, path: str) -> Iterator[FieldError]:
    weight = given.hard_pod_affinity_weight
    yield from in_range(f"{path}.hardPodAffinityWeight", weight, 0, 100)


@validate_args.register(args.NodeAffinityArgs)
def _(given: args.NodeAffinityArgs, path: str) -> Iterator[FieldError]:
    affinity = given.added_affinity
    if affinity is None:
        return
    where = f"{path}.addedAffinity"
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else []
    for i, term in enumerate(terms):
        place = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        yield from _node_selector_term(f"{where}.{place}[{i}]", term)
    for i, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = "preferredDuringSchedulingIgnoredDuringExecution"
        if preferred.weight:
            term = preferred.preference
            yield from _node_selector_term(f"{where}.{place}[{i}].preference", term)


@validate_args.register(args.NodeResourcesFitArgs)
def _(given: args.NodeResourcesFitArgs, path: str) -> Iterator[FieldError]:
    for i, resource in enumerate(given.ignored_resources):
        yield from _errors(f"{path}.ignoredResources[{i}]", names.qualified_name(resource))
    for i, group in enumerate(given.ignored_resource_groups):
        where = f"{path}.ignoredResourceGroups[{i}]"
        if "/" in group:
            yield FieldError(where, f'"{group}" must not contain a slash')
        else:
            yield from _errors(where, names.qualified_name(group))
    yield from _scoring_strategy(f"{path}.scoringStrategy", given.scoring_strategy)


def _scoring_strategy(path: str, strategy: args.ScoringStrategy) -> Iterator[FieldError]:
    yield from _one_of(f"{path}.type", strategy.type, _STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        yield from in_range(f"{path}.resources[{i}].weight", resource.weight, 1, 100)
    where = f"{path}.requestedToCapacityRatio"
    param = strategy.requested_to_capacity_ratio
    if strategy.type != "RequestedToCapacityRatio":
        if param is not None:
            yield FieldError(where, "only goes with type RequestedToCapacityRatio")
    elif param is None:
        yield FieldError(where, "required with type RequestedToCapacityRatio")
    else:
        yield from _shape(f"{where}.shape", param.shape)


@validate_args.register(args.NodeResourcesBalancedAllocationArgs)
def _(given: args.NodeResourcesBalancedAllocationArgs, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, resource in enumerate(given.resources):
        where = f"{path}.resources[{i}]"
        if resource.name in seen:
            yield FieldError(f"{where}.name", f'"{resource.name}" occurs twice')
        seen.add(resource.name)
        if resource.weight != 1:
            yield FieldError(f"{where}.weight", "must be 1")


@validate_args.register(args.PodTopologySpreadArgs)
def _(given: args.PodTopologySpreadArgs, path: str) -> Iterator[FieldError]:
    yield from _one_of(f"{path}.defaultingType", given.defaulting_type, ("System", "List"))
    if given.defaulting_type == "System" and given.default_constraints:
        yield FieldError(f"{path}.defaultingType", "must be List when there are defaultConstraints")
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(given.default_constraints):
        where = f"{path}.defaultConstraints[{i}]"
        yield from _constraint(where, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            problem = f'a second constraint for {key[1]} over "{key[0]}"'
            yield FieldError(where, problem)
        seen.add(key)


def _constraint(path: str, constraint: args.TopologySpreadConstraint) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield FieldError(f"{path}.maxSkew", "must be greater than 0")
    if not constraint.topology_key:
        yield FieldError(f"{path}.topologyKey", "required")
    else:
        yield from _errors(f"{path}.topologyKey", names.qualified_name(constraint.topology_key))
    action = constraint.when_unsatisfiable
    yield from _one_of(f"{path}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
    if constraint.label_selector is not None:
        yield FieldError(
            f"{path}.labelSelector",
            "must not be set: it is that of the Service or workload of each Pod",
        )


@validate_args.register(args.VolumeBindingArgs)
def _(given: args.VolumeBindingArgs, path: str) -> Iterator[FieldError]:
    yield from _not_negative(f"{path}.bindTimeoutSeconds", given.bind_timeout_seconds)
    yield from _shape(f"{path}.shape", given.shape or ())


@validate_args.register(args.DynamicResourcesArgs)
def _(given: args.DynamicResourcesArgs, path: str) -> Iterator[FieldError]:
    yield from _not_negative(f"{path}.filterTimeout", given.filter_timeout)
    if given.binding_timeout < 1:
        yield FieldError(f"{path}.bindingTimeout", "must be at least 1s")


@validate_args.register(args.CoschedulingArgs)
def _(given: args.CoschedulingArgs, path: str) -> Iterator[FieldError]:
    yield from _not_negative(f"{path}.permitWaitingTimeSeconds", given.permit_waiting_time_seconds)
    yield from _not_negative(f"{path}.podGroupBackoffSeconds", given.pod_group_backoff_seconds)
    if not 0 <= given.pod_group_reject_percentage <= 100:
        yield FieldError(f"{path}.podGroupRejectPercentage", "must be from 0 to 100")
    for i, level in enumerate(given.topology_levels):
        yield from _errors(f"{path}.topologyLevels[{i}]", names.qualified_name(level))
        if level in given.topology_levels[:i]:
            yield FieldError(f"{path}.topologyLevels[{i}]", f'"{level}" is there already')
    for i, kind in enumerate(given.infer_groups):
        yield from _one_of(f"{path}.inferGroups[{i}]", kind, args.GROUP_OWNERS)
    yield from _not_negative(f"{path}.evictIncompleteAfter", given.evict_incomplete_after)


@validate_args.register(args.FairShareArgs)
def _(given: args.FairShareArgs, path: str) -> Iterator[FieldError]:
    if not 1 <= given.attempt_share <= 100:
        yield FieldError(f"{path}.attemptShare", "must be from 1 to 100")
    yield from _not_negative(f"{path}.ageing", given.ageing)
    past = given.past_use
    if past is not None and past.interval <= 0:
        yield FieldError(f"{path}.pastUse.interval", "must be greater than 0")
    if past is not None and past.half_life < past.interval:
        yield FieldError(f"{path}.pastUse.halfLife", "must not be less than interval")


@validate_args.register(args.BackfillArgs)
def _(given: args.BackfillArgs, path: str) -> Iterator[FieldError]:
    yield from _not_negative(f"{path}.reserveAfter", given.reserve_after)


@validate_args.register(args.LoadArgs)
def _load_args(given: args.LoadArgs, path: str) -> Iterator[FieldError]:
    provider = given.metric_provider
    if given.watcher_address:
        yield from _url(f"{path}.watcherAddress", given.watcher_address)
    elif provider.type not in ("", *_METRIC_PROVIDERS):
        text = f"invalid MetricProvider.Type, got {provider.type}"
        hint = f" (one of {', '.join(_METRIC_PROVIDERS)})"
        yield FieldError(f"{path}.metricProvider.type", text + hint)
    if provider.address:
        yield from _url(f"{path}.metricProvider.address", provider.address)
    for name in ("cpu", "memory"):
        query: args.Query = getattr(provider.queries, name)
        if query.deviation and not query.mean:
            yield FieldError(f"{path}.metricProvider.queries.{name}.mean", "required")
    if given.compat not in ("", args.EXACT):
        yield from _one_of(f"{path}.compat", given.compat, (args.EXACT,))


_METRIC_PROVIDERS = (args.SourceType.METRICS_API.value, args.SourceType.PROMETHEUS.value)


def _url(path: str, value: str) -> Iterator[FieldError]:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        yield FieldError(path, f'must be a URL such as http://prometheus:9090, not "{value}"')


@validate_args.register(args.TargetLoadPackingArgs)
def _(given: args.TargetLoadPackingArgs, path: str) -> Iterator[FieldError]:
    yield from _load_args(given, path)
    yield from in_range(f"{path}.targetUtilization", given.target_utilization, 1, 100)
    for name, amount in given.default_requests.items():
        try:
            quantity.parse(amount)
        except quantity.QuantityError as error:
            yield FieldError(f"{path}.defaultRequests[{name}]", str(error))
    text = given.default_requests_multiplier
    try:
        fits = 0 <= float(text) < float("inf")
    except ValueError:
        fits = False
    if not fits:
        problem = f'must be a number of at least 0 in quotes, not "{text}"'
        yield FieldError(f"{path}.defaultRequestsMultiplier", problem)


@validate_args.register(args.LowRiskOverCommitmentArgs)
def _(given: args.LowRiskOverCommitmentArgs, path: str) -> Iterator[FieldError]:
    yield from _load_args(given, path)
    for name, weight in given.risk_limit_weights.items():
        if not 0 <= weight <= 1:
            yield FieldError(f"{path}.riskLimitWeights[{name}]", "must be from 0 to 1")


@validate_args.register(args.BlastRadiusArgs)
def _(given: args.BlastRadiusArgs, path: str) -> Iterator[FieldError]:
    if given.failover.priority_at_least and not given.failover.domain:
        yield FieldError(f"{path}.failover.domain", "must name a label of nodes")


def _transfer(given: args.TransferArgs, path: str) -> Iterator[FieldError]:
    costs = {
        "sameFinest": given.same_finest,
        "sameCoarsest": given.same_coarsest,
        "other": given.other,
        **{f"matrix[{i}].cost": each.cost for i, each in enumerate(given.matrix)},
    }
    for name, cost in costs.items():
        if not 0 <= cost < float("inf"):
            yield FieldError(f"{path}.{name}", "must be a number of at least 0")
    for i, each in enumerate(given.matrix):
        if not each.from_ or not each.to:
            yield FieldError(f"{path}.matrix[{i}]", "must name two domains, from and to")


@validate_args.register(args.DomainCostArgs)
def _(given: args.DomainCostArgs, path: str) -> Iterator[FieldError]:
    price = given.price
    if sum(map(bool, (price.annotation, price.label, price.per_domain, price.promql))) > 1:
        text = "must name one of annotation, label, perDomain and promql"
        yield FieldError(f"{path}.price", text)
    if price.promql is not None:
        yield from _promql(price.promql, f"{path}.price.promql")
    yield from _amounts(price, f"{path}.price")
    if given.transfer is not None:
        yield from _transfer(given.transfer, f"{path}.transfer")
    if given.budget is not None and not given.budget.annotation:
        yield FieldError(f"{path}.budget.annotation", "must name an annotation")
    if not given.topology_keys:
        yield FieldError(f"{path}.topologyKeys", "must name at least one label")
    if not 1e-9 <= given.significant < float("inf"):
        yield FieldError(f"{path}.significant", "must be at least 1e-9")


def _promql(given: args.PromqlPrices, path: str) -> Iterator[FieldError]:
    yield from _url(f"{path}.address", given.address)
    for name, text in (("nodeLabel", given.node_label), ("query", given.query)):
        if not text:
            yield FieldError(f"{path}.{name}", "required")


def _amounts(given: args.PriceArgs, path: str) -> Iterator[FieldError]:
    prices = {f"perDomain[{name}]": amount for name, amount in given.per_domain.items()}
    if given.default is not None:
        prices["default"] = given.default
    for name, amount in prices.items():
        if not 0 <= amount < float("inf"):
            yield FieldError(f"{path}.{name}", "must be a number of at least 0")


@validate_args.register(args.LeastFragmentationArgs)
def _(given: args.LeastFragmentationArgs, path: str) -> Iterator[FieldError]:
    if not given.resources:
        yield FieldError(f"{path}.resources", "must name at least one resource")
    for i, resource in enumerate(given.resources):
        where = f"{path}.resources[{i}]"
        yield from _scarce(where, resource)
        if resource in given.resources[:i]:
            yield FieldError(where, f'"{resource}" is there already')
    if not 0 < given.grain <= 1:
        yield FieldError(f"{path}.grain", "must be more than 0 and at most 1 device")
    if given.half_life_seconds < 1:
        yield FieldError(f"{path}.halfLifeSeconds", "must be at least 1")
    if given.typical_share is not None and not 0 < given.typical_share <= 1:
        yield FieldError(f"{path}.typicalShare", "must be more than 0 and at most 1")


@validate_args.register(args.ReservedForArgs)
def _(given: args.ReservedForArgs, path: str) -> Iterator[FieldError]:
    if not given.resources:
        yield FieldError(f"{path}.resources", "must name at least one resource")
    for scarce, kept in given.resources.items():
        where = f"{path}.resources[{scarce}]"
        yield from _scarce(where, scarce)
        if not kept:
            yield FieldError(where, "must name at least one resource that is kept free")
        for name, amount in kept.items():
            if name in given.resources:
                yield FieldError(f"{where}[{name}]", "must not be a scarce resource itself")
            try:
                too_little = quantity.of(name, amount) <= 0
            except quantity.QuantityError as error:
                yield FieldError(f"{where}[{name}]", str(error))
            else:
                if too_little:
                    yield FieldError(f"{where}[{name}]", "must be greater than 0")


def _scarce(path: str, resource: str) -> Iterator[FieldError]:
    if "/" not in resource:
        yield FieldError(path, f'"{resource}" is no extended resource: its name has a domain')
    else:
        yield from _errors(path, names.qualified_name(resource))


@validate_args.register(args.NodeResourcesAllocatableArgs)
def _(given: args.NodeResourcesAllocatableArgs, path: str) -> Iterator[FieldError]:
    yield from _one_of(f"{path}.mode", given.mode, ("Least", "Most"))
    for i, resource in enumerate(given.resources):
        if resource.weight < 1:
            text = f"resource weight of {resource.name} should be a positive value"
            yield FieldError(f"{path}.resources[{i}].weight", f"{text}, got :{resource.weight}")


_METADATA_STRATEGIES = {"Number": ("Highest", "Lowest"), "Timestamp": ("Newest", "Oldest")}


@validate_args.register(args.NodeMetadataArgs)
def _(given: args.NodeMetadataArgs, path: str) -> Iterator[FieldError]:
    if not given.metadata_key:
        yield FieldError(f"{path}.metadataKey", "required")
    yield from _one_of(f"{path}.metadataSource", given.metadata_source, ("Label", "Annotation"))
    kind = given.metadata_type
    yield from _one_of(f"{path}.metadataType", kind, tuple(_METADATA_STRATEGIES))
    strategies = _METADATA_STRATEGIES.get(kind, ("Highest", "Lowest", "Newest", "Oldest"))
    yield from _one_of(f"{path}.scoringStrategy", given.scoring_strategy, strategies)


@validate_args.register(args.NetworkOverheadArgs)
def _(given: args.NetworkOverheadArgs, path: str) -> Iterator[FieldError]:
    names = (
        ("weightsName", given.weights_name),
        ("networkTopologyName", given.network_topology_name),
    )
    for field, value in names:
        if not value:
            yield FieldError(f"{path}.{field}", "required")


_ZONE_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes")


@validate_args.register(args.NodeResourceTopologyMatchArgs)
def _(given: args.NodeResourceTopologyMatchArgs, path: str) -> Iterator[FieldError]:
    strategy, cache = given.scoring_strategy, given.cache
    yield from _one_of(f"{path}.scoringStrategy.type", strategy.type, _ZONE_STRATEGIES)
    exclusive = "OnlyExclusiveResources"
    for field, value, allowed in (
        ("cache.foreignPodsDetect", cache.foreign_pods_detect, ("None", "All", exclusive)),
        ("cache.resyncMethod", cache.resync_method, ("Autodetect", "All", exclusive)),
        ("cache.informerMode", cache.informer_mode, ("Shared", "Dedicated")),
        ("cache.resyncScope", cache.resync_scope, ("All", "OnlyResources")),
        ("preemptionMode", given.preemption_mode, ("Disabled", "Enabled")),
    ):
        yield from _one_of(f"{path}.{field}", value, allowed)


def _shape(path: str, shape: Sequence[args.UtilizationShapePoint]) -> Iterator[FieldError]:
    if not shape:
        yield FieldError(path, "must have at least one point")
    for i, point in enumerate(shape):
        if i and shape[i - 1].utilization >= point.utilization:
            yield FieldError(f"{path}[{i}].utilization", "must be greater than the one before")
        yield from in_range(f"{path}[{i}].utilization", point.utilization, 0, 100)
        yield from in_range(f"{path}[{i}].score", point.score, 0, 10)


def _node_selector_term(path: str, term: args.NodeSelectorTerm) -> Iterator[FieldError]:
    for i, requirement in enumerate(term.match_expressions):
        yield from _label_requirement(f"{path}.matchExpressions[{i}]", requirement)
    for i, requirement in enumerate(term.match_fields):
        where = f"{path}.matchFields[{i}]"
        if requirement.operator not in _FIELD_OPERATORS:
            yield from _one_of(f"{where}.operator", requirement.operator, _FIELD_OPERATORS)
        elif len(requirement.values) != 1:
            yield FieldError(f"{where}.values", "must have exactly one element")


def _label_requirement(path: str, requirement: args.Requirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        yield from _one_of(f"{path}.operator", operator, _LABEL_OPERATORS)
        return
    yield from _errors(f"{path}.key", names.qualified_name(requirement.key))
    if operator in ("In", "NotIn") and not values:
        yield FieldError(f"{path}.values", f"must not be empty with operator {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        yield FieldError(f"{path}.values", f"must be empty with operator {operator}")
    if operator in ("Gt", "Lt") and (len(values) != 1 or integer(values[0]) is None):
        yield FieldError(f"{path}.values", f"must be one integer with operator {operator}")
    for i, value in enumerate(values):
        yield from _errors(f"{path}.values[{i}]", names.label_value(value))


def _not_negative(path: str, value: float) -> Iterator[FieldError]:
    if value < 0:
        yield FieldError(path, "must not be negative")


def in_range(path: str, value: int, low: int, high: int) -> Iterator[FieldError]:
    """What is wrong with a number that must be from `low` to `high`."""
    if not low <= value <= high:
        yield FieldError(path, f"{value} is not in the range {low} to {high}")


def _one_of(path: str, value: str, allowed: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield FieldError(path, f"required: one of {', '.join(allowed)}")
    elif value not in allowed:
        hint = suggestion(value, allowed) or f" (one of {', '.join(allowed)})"
        yield FieldError(path, f'unknown value "{value}"{hint}')


def _errors(path: str, problems: Iterable[str]) -> Iterator[FieldError]:
    for problem in problems:
        yield FieldError(path, problem)
