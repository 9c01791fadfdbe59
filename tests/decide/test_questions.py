"""Questions change nothing: a second generation of profiles decides beside the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core_harness import Cluster, profile
from tests.groups import pod_group
from tests.properties import length
from tests.queues import name_space, queue, queues_profile

from bayplan.app.assembly import make_profiles
from bayplan.app.follow import NoEvents
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.config import parse_config
from bayplan.decide.deciding import deciding
from bayplan.engine.registry import Registry
from bayplan.explain.plan import plan_waiting
from bayplan.profiles import Profiles
from bayplan.telemetry.instrument import Instrument
from bayplan.testing import PROFILE, PodBuilder, make_node, make_pod

OTHER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: bayplan
  plugins:
    multiPoint:
      enabled: [{name: FairShare}, {name: Coscheduling}]
      disabled: [{name: PrioritySort}]
    postFilter:
      enabled: [{name: FairShare}]
    podGroupPostFilter:
      enabled: [{name: FairShare}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""
NAMESPACES = ("red", "blue", "green")
PRIORITIES = {"low": -10, "mid": 0, "high": 1000}


def second_generation(cluster: Cluster) -> Profiles:
    """Another configuration over the same world. Nothing that it does is counted or written."""
    registry = Registry()
    ports = replace(cluster.ports, instrument=Instrument(), events=NoEvents(), writer=None)
    config = parse_config(OTHER, registry.known)
    return make_profiles(config, registry, cluster.world, cluster.core.placers, ports)


def no_tenants() -> Cluster:
    """Two namespaces without Queues."""
    return Cluster(profiles=[profile()])


def two_queues() -> Cluster:
    """A queue for each namespace."""
    cluster = Cluster(profiles=[queues_profile()])
    cluster.add(queue("red", "red", guaranteed={"cpu": "4"}, limit={"cpu": "9"}))
    cluster.add(queue("blue", "blue", guaranteed={"cpu": "6"}, limit={"cpu": "8"}))
    return cluster


def departments() -> Cluster:
    """Trees of queues with weights, targets for waiting, and times before an eviction.

    They are so many that turns do not learn shares at every attempt.
    """
    cluster = Cluster(profiles=[queues_profile("Coscheduling")])
    cluster.add(queue("left", guaranteed={"cpu": "6"}), queue("right", weight=2))
    cluster.add(
        queue("red", "red", parent="left", guaranteed={"cpu": "3"}, waitingTargetSeconds=2),
        queue("blue", "blue", parent="right", weight=2, waitingTargetSeconds=3),
        queue("green", "green", parent="right", minRuntimeSeconds=5, guaranteed={"cpu": "2"}),
        *(queue(f"idle{i}", f"idle{i}", parent="left") for i in range(6)),
    )
    cluster.add(*(pod_group("gang", minMember=2).namespace(name) for name in NAMESPACES))
    return cluster


def pods_of(random: Random, second: float) -> list[PodBuilder]:
    """Pods of some tenants, some of which need what others have; a few of them are in groups."""
    builders = []
    for number in range(random.randrange(8, 20)):
        builder = (
            make_pod(f"p{number}")
            .meta(uid=f"uid-{number}")
            .namespace(random.choice(NAMESPACES))
            .created(datetime.fromtimestamp(second + number, UTC).isoformat())
        )
        builder.req(cpu=str(random.choice((1, 1, 2, 3))))
        if random.random() < 0.3:
            builder.label(POD_GROUP_LABEL, "gang")
        else:
            builder.priority(PRIORITIES[random.choice(list(PRIORITIES))])
        if random.random() < 0.2:
            builder.label("app", "web").host_port(80)
        builders.append(builder)
    return builders


def run(seed: int, world: Callable[[], Cluster], *, questions: bool) -> dict[str, Any]:
    """Everything that can be seen from outside of one run."""
    random = Random(seed)
    asking = Random(seed + 1)
    cluster = world()
    for name in NAMESPACES:
        name_space(cluster, name)
    cluster.add(*(make_node(f"n{i}").capacity(cpu="5", memory="8Gi", pods=9) for i in range(3)))
    other = second_generation(cluster) if questions else None
    for builder in pods_of(random, cluster.clock.time):
        cluster.add(builder)
        for _ in range(random.randrange(3)):
            if other is not None:
                ask(cluster, other, asking)
            cluster.wait(random.choice((0.0, 0.4, 1.1)))
            queued = cluster.queue.pop()
            if queued is not None:
                cluster.scheduler.schedule_one(queued)
                cluster.scheduler.take_in(wait=False)
    for _ in range(8):
        cluster.wait(400.0)
        if other is not None:
            ask(cluster, other, asking)
        cluster.run()
    return {
        "bound": cluster.bound,
        "events": cluster.notes,
        "conditions": cluster.recorder.conditions,
        "nominated": sorted(cluster.queue.nominator.nominated_nodes()),
        "pods": sorted((pod.key, pod.node_name) for pod in cluster.cache.pods()),
        "counted": counted(cluster),
        "columns": cluster.cache.nodes.recount(),
    }


def ask(cluster: Cluster, other: Profiles, asking: Random) -> None:
    """Ask both generations about some Pods that wait, and about all in their order."""
    waiting = list(cluster.queue.waiting_pods())
    for pod in asking.sample(waiting, min(len(waiting), 3)):
        for generation in (cluster.core.profiles, other):
            with deciding(
                cluster.core.placers, generation[PROFILE], pod, detailed=asking.random() < 0.5
            ) as decision:
                assert (decision.member is None) == (decision.rejection is not None)
    core = cluster.core
    assert plan_waiting(core.world, core.profiles, core.placers, names=True)["kind"] == "PlanAnswer"


def counted(cluster: Cluster) -> dict[str, float]:
    """Every counter, and how often each duration was measured."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for metric in cluster.metrics.registry.collect()
        for sample in metric.samples
        if sample.name.endswith(("_total", "_count")) and not sample.name.startswith("process_")
    }


@length(25)
@given(seed=st.integers(0, 2**32))
def test_whoever_asks_changes_nothing(seed: int) -> None:
    """No binding, eviction, event, condition, nomination or count differs."""
    _compare(seed, no_tenants)


@length(25)
@given(seed=st.integers(0, 2**32))
def test_whoever_asks_changes_nothing_among_tenants(seed: int) -> None:
    """Nor whose turn is next."""
    _compare(seed, two_queues)


@length(25)
@given(seed=st.integers(0, 2**32))
def test_whoever_asks_changes_nothing_among_departments(seed: int) -> None:
    """Nor what a queue is known to use, nor who is late."""
    _compare(seed, departments)


def _compare(seed: int, world: Callable[[], Cluster]) -> None:
    quiet, asked = (run(seed, world, questions=asks) for asks in (False, True))
    assert asked == quiet
    assert asked["columns"] == {}
