"""`python -m bench.groups`: what the scheduling thread needs for groups, with no API server.

    python -m bench.groups --nodes 5000 --profile

As in `bench.core`, the real scheduler on a real cache, and a client that agrees to everything. All
times are CPU. "plan" is that of one plan, or of the verdict that there is none; "all" is the whole
way of a group: the plan, Bind, outcome and confirmation of its Pods, or conditions and events.
"""

from __future__ import annotations

import cProfile
import json
import pstats
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Annotated, Any, NamedTuple

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from bayplan.app.assembly import Core
from bayplan.attempt.plan import Plan
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.cache.sub_groups import REQUIRED_TOPOLOGY, SUB_GROUP_LABEL, SUB_GROUPS
from bayplan.config import parse_config
from bayplan.framework.registry import Registry
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
SECONDS = 120.0

console = Console()


class Case(NamedTuple):
    """``groups`` groups of ``size`` Pods of ``cpu`` each; ``level`` is required where it is set.

    With ``parts`` each group has so many sub-groups of equal size, and these require the level.
    """

    name: str
    groups: int
    size: int
    cpu: str = "100m"
    level: str = ""
    parts: int = 0


CASES = (
    Case("1,000 gangs of 3", 1000, 3),
    Case("3 gangs of 1,000", 3, 1000),
    Case("1 gang of 10,000", 1, 10_000),
    Case("3 gangs of 1,000, each in a zone", 3, 1000, level=ZONE),
    Case("3 gangs of 1,000 in 10 parts, each in a zone", 3, 1000, level=ZONE, parts=10),
    Case("a gang of 10 that does not fit", 1, 10, cpu=str(CPU_OF_ALL + 1)),
    Case("a gang of 1,000 that does not fit", 1, 1000, cpu=str(CPU_OF_ALL + 1)),
    Case("a gang of 30,000 that does not fit", 1, 30_000, cpu="1"),
)


def main(
    nodes: Annotated[int, typer.Option(envvar="NODES", min=1)] = 5_000,
    only: Annotated[str, typer.Option(help="Only cases whose name has this in it.")] = "",
    *,
    profile: Annotated[bool, typer.Option(envvar="PROFILE")] = False,
) -> None:
    """Measure plans of groups, each case on a cluster of its own."""
    table = Table("groups", title=f"{nodes:,} nodes", title_justify="left")
    for title in ("bound", "plan, ms a group", "all, ms a group", "all, us a Pod"):
        table.add_column(title, justify="right")
    for case in CASES:
        if only in case.name:
            table.add_row(case.name, *measure(case, nodes, profile=profile))
    console.print(table)


def measure(case: Case, nodes: int, *, profile: bool = False) -> tuple[str, ...]:
    """How many Pods were bound, and the three figures of the table, on ``nodes`` nodes."""
    registry, catalog = Registry(), load_catalog()
    (workload,) = catalog.select("SchedulingBasic")
    zones = tuple(f"zone{number}" for number in range(ZONES))
    workload = workload.sized(nodes, placed=0)
    workload = replace(workload, nodes=tuple(replace(n, zones=zones) for n in workload.nodes))
    config = parse_config(CONFIG + PROFILE, registry.known)
    world = CoreWorld(config, registry, workload, Objects(catalog, workload))
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


def _plan_all(core: Core) -> float:
    """Plan every group that waits, and drop the plan; CPU seconds of the plans."""
    planner = core.placers.planner
    seconds = 0.0
    for entry in core.world.queue.groups:
        group, framework = entry.group, core.profiles[entry.profile]
        assert group is not None
        started = process_time()
        outcome = planner.plan(framework, group, entry.pods, dry_run=True)
        seconds += process_time() - started
        if isinstance(outcome, Plan):
            planner.drop(outcome)
    return seconds


def _items(case: Case) -> Iterator[Item]:
    """The PodGroups, each followed by its Pods."""
    prefix = case.name.replace(" ", "-").replace(",", "")
    for group in range(case.groups):
        name = f"{prefix}-{group}"
        annotations = {REQUIRED_TOPOLOGY: case.level} if case.level and not case.parts else {}
        if case.parts:
            each = {"minMember": case.size // case.parts, "requiredTopology": case.level}
            listed = [{"name": f"part-{part}", **each} for part in range(case.parts)]
            annotations = {SUB_GROUPS: json.dumps(listed)}
        yield _item("PodGroup", name, {"annotations": annotations}, {"minMember": case.size})
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": case.cpu}}}
        spec = {"schedulerName": "default-scheduler", "containers": [container]}
        for number in range(case.size):
            labels = {POD_GROUP_LABEL: name}
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
