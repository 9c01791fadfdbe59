"""`python -m bench.groups`: what the scheduling thread needs for groups, with no API server.

    python -m bench.groups --nodes 5000 --profile
    python -m bench.groups --nodes 5000 --waiting 10000

As in `bench.core`, the real scheduler on a real cache, and a client that agrees to everything. All
times are CPU. "plan" is that of one plan, or of the verdict that there is none; "all" is the whole
way of a group: the plan, Bind, outcome and confirmation of its Pods, or conditions and events.

With ``--waiting`` so many gangs of 3 wait, for room on nodes that are full or for a Pod that does
not come, and what is timed is an event that helps none of them: until each gang is where it belongs
in the queue, without the attempts of those that the event wakes.
"""

from __future__ import annotations

import cProfile
import json
import pstats
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from statistics import median
from time import process_time
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from bayplan.api.kinds import KINDS, NODE, POD
from bayplan.app.assembly import Core
from bayplan.cache.group_topology import REQUIRED_TOPOLOGY, SLICES
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.sub_groups import SUB_GROUP_LABEL, SUB_GROUPS
from bayplan.config import parse_config
from bayplan.config.feature_gates import parse_feature_gates
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Changed, Removed, WatchMessage
from bayplan.queue.states import QueueState
from bayplan.testing import PodBuilder, make_pod
from bench.core import PROFILE_LINES, quiet_collector
from bench.objects import ZONE, Item, Objects, collection
from bench.recording import CoreWorld
from bench.schedulers import CONFIG
from bench.workloads import load_catalog

PROFILE = """\
profiles:
  - plugins:
      multiPoint:
        enabled: [{name: Coscheduling}]
        disabled: [{name: PrioritySort}]
"""
CPU_OF_ALL = 4
"""CPUs of a node of the workload SchedulingBasic, whose nodes these are."""
ZONES = 5
HOST = "kubernetes.io/hostname"
SECONDS = 120.0
EVENTS = 20
"""Of a kind; no more of it after one that wakes anybody."""

console = Console()


class Case(NamedTuple):
    """``groups`` groups of ``size`` Pods of ``cpu`` each; ``level`` is required where it is set.

    With ``parts`` each group has so many sub-groups of equal size, and these require the level;
    with ``slices`` every so many Pods do.
    ``missing`` of its Pods do not come. The PodGroups are those of a label, or of Kubernetes.
    """

    name: str
    groups: int
    size: int
    cpu: str = "100m"
    level: str = ""
    parts: int = 0
    slices: int = 0
    missing: int = 0
    kind: str = "PodGroup"


CASES = (
    Case("1,000 gangs of 3", 1000, 3),
    Case("3 gangs of 1,000", 3, 1000),
    Case("1 gang of 10,000", 1, 10_000),
    Case("3 gangs of 1,000, each in a zone", 3, 1000, level=ZONE),
    Case("3 gangs of 1,000 in 10 parts, each in a zone", 3, 1000, level=ZONE, parts=10),
    Case("3 gangs of 512", 3, 512),
    Case("3 gangs of 512 in slices of 8, each in a zone", 3, 512, level=ZONE, slices=8),
    Case("3 gangs of 512 in slices of 8, each on a node", 3, 512, level=HOST, slices=8),
    Case("3 gangs of 512 on few nodes", 3, 512, level=HOST, slices=1),
    Case("a gang of 10 that does not fit", 1, 10, cpu=str(CPU_OF_ALL + 1)),
    Case("a gang of 1,000 that does not fit", 1, 1000, cpu=str(CPU_OF_ALL + 1)),
    Case("a gang of 30,000 that does not fit", 1, 30_000, cpu="1"),
)
OF_KUBERNETES = "PodGroup.scheduling.k8s.io"
WAITING = (
    Case("for room", 0, 3, cpu="1"),
    Case("for a Pod", 0, 3, missing=1),
    Case("of Kubernetes, for room", 0, 3, cpu="1", kind=OF_KUBERNETES),
    Case("of Kubernetes, for a Pod", 0, 3, missing=1, kind=OF_KUBERNETES),
)


def main(
    nodes: Annotated[int, typer.Option(envvar="NODES", min=1)] = 5_000,
    only: Annotated[str, typer.Option(help="Only cases whose name has this in it.")] = "",
    waiting: Annotated[int, typer.Option(min=0, help="Time events beside so many gangs.")] = 0,
    *,
    profile: Annotated[bool, typer.Option(envvar="PROFILE")] = False,
) -> None:
    """Measure plans of groups, or events beside them, each case on a cluster of its own."""
    if waiting:
        cases = [c._replace(groups=waiting) for c in WAITING if only in c.name]
        table = Table("us", title=f"{waiting:,} gangs on {nodes:,} nodes", title_justify="left")
        for case in cases:
            table.add_column(f"gangs wait {case.name}", justify="right")
        results = [events_beside(case, nodes, profile=profile) for case in cases]
        for name in results[0]:
            table.add_row(name, *(str(result[name]) for result in results))
        console.print(table)
        return
    table = Table("groups", title=f"{nodes:,} nodes", title_justify="left")
    for title in ("bound", "plan, ms a group", "all, ms a group", "all, us a Pod"):
        table.add_column(title, justify="right")
    for case in CASES:
        if only in case.name:
            table.add_row(case.name, *measure(case, nodes, profile=profile))
    console.print(table)


def measure(case: Case, nodes: int, *, profile: bool = False) -> tuple[str, ...]:
    """How many Pods were bound, and the three figures of the table, on ``nodes`` nodes."""
    world = _world(nodes)
    warm = Case("warm", 3, 3)
    with quiet_collector():
        world.feed(_items(warm))
        world.place(warm.groups * warm.size, SECONDS)
        world.feed(_items(case))
        with _profiled(on=profile):
            plan = _plan_all(world.core)
        started = process_time()
        bound = world.place(case.groups * case.size, SECONDS).pods
        seconds = process_time() - started
    return (
        f"{bound:,}",
        f"{plan / case.groups * 1e3:,.1f}",
        f"{seconds / case.groups * 1e3:,.1f}",
        f"{seconds / case.groups / case.size * 1e6:,.0f}",
    )


def _world(nodes: int, kind: str = "PodGroup") -> CoreWorld:
    """Nodes in zones, and a scheduler that places groups of that kind."""
    registry, catalog = Registry(), load_catalog()
    (workload,) = catalog.select("SchedulingBasic")
    zones = tuple(f"zone{number}" for number in range(ZONES))
    workload = workload.sized(nodes, placed=0)
    workload = replace(workload, nodes=tuple(replace(n, zones=zones) for n in workload.nodes))
    gates = parse_feature_gates(["GenericWorkload=true"] if kind == OF_KUBERNETES else [])
    config = parse_config(CONFIG + PROFILE, registry.known, gates=gates)
    return CoreWorld(config, registry, workload, Objects(catalog, workload))


class Woken(NamedTuple):
    """What an event of one kind costs, and how many groups it wakes."""

    seconds: float
    groups: int

    def __str__(self) -> str:
        woken = f" ({self.groups:,} woken)" if self.groups else ""
        return f"{self.seconds * 1e6:,.0f}{woken}"


def events_beside(case: Case, nodes: int, *, profile: bool = False) -> dict[str, Woken]:
    """What an event of each kind costs while all groups of ``case`` wait; the median."""
    world = _world(nodes, case.kind)
    handlers, queue = world.core.world.handlers, world.core.world.queue
    names = sorted(world.core.world.cache.node_names())
    large = [make_pod(f"large-{name}").req(cpu="3900m").node(name) for name in names]
    small = [make_pod(f"small-{name}").req(cpu="50m").node(name) for name in names]
    bound = [make_pod(f"bound-{number}").req(cpu="10m").node(names[0]) for number in range(EVENTS)]
    other = Case("other", 1, EVENTS + 1, missing=1, kind=case.kind)
    other_group, *other_pods = map(_change, _items(other))
    beats = [_node(world, name) for name in names[:EVENTS]]
    labelled = [_node(world, name, {"a": "b"}) for name in names[:EVENTS]]
    events: dict[str, Sequence[WatchMessage]] = {
        "a node's heartbeat": beats,
        "a label of a node": labelled,
        "a label of a Pod": [_shown(pod.label("a", "b")) for pod in deepcopy(small[:EVENTS])],
        "a Pod is bound": [_shown(pod) for pod in bound],
        "the PodGroup of another group": [other_group] * EVENTS,
        "a Pod of another group": other_pods,
        "a Pod leaves a full node": [Removed(POD, pod.obj()) for pod in small[-EVENTS:]],
    }
    results = {}
    with quiet_collector():
        for pod in (*large, *small):
            handlers.apply(_shown(pod))
        world.feed(_items(case))
        world.place(1, SECONDS)
        handlers.apply(other_group)
        with _profiled(on=profile):
            for name, messages in events.items():
                seconds = []
                for message in messages:
                    started = process_time()
                    handlers.apply(message)
                    seconds.append(process_time() - started)
                    waiting = queue.pending_pods()
                    if woken := len(waiting[QueueState.ACTIVE]) + len(waiting[QueueState.BACKOFF]):
                        break
                results[name] = Woken(median(seconds), woken)
    return results


def _node(
    world: CoreWorld, name: str, labels: Mapping[str, str] = MappingProxyType({})
) -> WatchMessage:
    """A later version of the node, which has these labels as well."""
    node = world.core.world.cache.node(name)
    assert node is not None
    metadata = replace(
        node.metadata, resource_version=f"later {labels}", labels={**node.labels, **labels}
    )
    return Changed(NODE, replace(node, metadata=metadata))


def _shown(pod: PodBuilder) -> WatchMessage:
    return Changed(POD, pod.obj())


def _change(item: Item) -> WatchMessage:
    kind = KINDS[item.kind]
    return Changed(kind, kind.decode(item.body))


def _plan_all(core: Core) -> float:
    """Plan every group that waits, and drop the plan; CPU seconds of the plans."""
    planner = core.placers.planner
    seconds = 0.0
    for entry in core.world.queue.groups:
        group, framework = entry.group, core.profiles[entry.profile]
        assert group is not None
        started = process_time()
        plan = planner.plan(framework, group, entry.pods)
        seconds += process_time() - started
        planner.drop(plan)
    return seconds


def _items(case: Case) -> Iterator[Item]:
    """The PodGroups, each followed by its Pods."""
    prefix = case.name.replace(" ", "-").replace(",", "")
    for group in range(case.groups):
        name = f"{prefix}-{group}"
        annotations = {REQUIRED_TOPOLOGY: case.level} if case.level else {}
        if case.slices:
            annotations = {SLICES: json.dumps([{"topology": case.level, "size": case.slices}])}
        if case.parts:
            each = {"minMember": case.size // case.parts, "requiredTopology": case.level}
            listed = [{"name": f"part-{part}", **each} for part in range(case.parts)]
            annotations = {SUB_GROUPS: json.dumps(listed)}
        of_kubernetes = case.kind == OF_KUBERNETES
        gang = {"schedulingPolicy": {"gang": {"minCount": case.size}}}
        asks = gang if of_kubernetes else {"minMember": case.size}
        yield _item(case.kind, name, {"annotations": annotations}, asks)
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": case.cpu}}}
        spec: dict[str, Any] = {"schedulerName": "default-scheduler", "containers": [container]}
        if of_kubernetes:
            spec["schedulingGroup"] = {"podGroupName": name}
        for number in range(case.size - case.missing):
            labels = {} if of_kubernetes else {POD_GROUP_LABEL: name}
            if case.parts:
                labels[SUB_GROUP_LABEL] = f"part-{number % case.parts}"
            yield _item("Pod", f"{name}-{number}", {"labels": labels}, spec)


def _item(kind: str, name: str, metadata: dict[str, Any], spec: dict[str, Any]) -> Item:
    meta = {"name": name, "namespace": "default", "uid": f"{kind}-{name}", **metadata}
    body = json.dumps({"kind": kind, "metadata": meta, "spec": spec}).encode()
    return Item(kind, collection("Pod", "default"), name, body)


@contextmanager
def _profiled(*, on: bool) -> Iterator[None]:
    if not on:
        yield
        return
    with cProfile.Profile() as profile:
        yield
    pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE_LINES)


if __name__ == "__main__":
    typer.run(main)
