"""Dump: what two configurations make of one cluster file, Pod by Pod.

Each configuration places all pending Pods in a world of its own, as `bayplan simulate` does. Which
plugin makes the difference is asked in a third world: the second configuration judges each decision
of the first in the state that the first one had. Where it agrees there, the difference follows from
what was placed before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.config import EffectiveConfig
from bayplan.engine.registry import Registry
from bayplan.inbox.messages import Changed
from bayplan.measures import Measures, measures_of
from bayplan.shadow.judge import Judge
from bayplan.shadow.verdict import Theirs, owner_of
from bayplan.simulation import LoadedCluster, offline_core, simulate
from bayplan.simulation.offline import judged
from bayplan.simulation.replan import take_off
from bayplan.simulation.simulate import Result

EXPLAINED = 2_000
"""Differences of which the plugin is looked for."""


class Change(StrEnum):
    """In what two decisions differ."""

    ELSEWHERE = "elsewhere"
    """The Pod goes to another node."""
    PENDING_IN_A = "pendingInA"
    """The Pod waits with the first configuration only."""
    PENDING_IN_B = "pendingInB"
    """The Pod waits with the second configuration only."""
    EVICTIONS = "evictions"
    """Other Pods would be evicted for it."""
    MESSAGE = "message"
    """The Pod waits with both, for other reasons."""


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """What becomes of a Pod with one of them.

    Attributes:
        node: "" for none.
        message: why it waits.
        victims: who would be evicted for it.
    """

    node: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Pod that two configurations treat differently.

    Attributes:
        owner: ``namespace/kind/name``.
        plugin: which plugin of the second makes the difference, in the state that the first had;
            "" where none does, or where that was not looked for.
        points: how much more the second rates its own node, in that state.
        reasons: why that plugin rejects the first's node.
        follows: whether it follows from what was placed before.
    """

    pod: str
    owner: str
    change: Change
    a: Side
    b: Side
    plugin: str = ""
    points: int = 0
    reasons: tuple[str, ...] = ()
    follows: bool = False


class DumpComparison(msgspec.Struct, frozen=True):
    """Two configurations on a cluster file.

    Attributes:
        pods: how many Pods were placed or found no node.
        differences: in the order of their names.
        plugins: how many differences each plugin makes.
        a: the measures with the Pods of the first placed.
        b: those of the second.
    """

    pods: int
    differences: tuple[Difference, ...]
    plugins: dict[str, int]
    a: Measures
    b: Measures

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        return bool(self.differences)


@dataclass(frozen=True)
class Candidate:
    """A configuration with its plugins."""

    config: EffectiveConfig
    registry: Registry


class _World:
    """A cluster file with one configuration."""

    def __init__(self, cluster: LoadedCluster, candidate: Candidate, *, replan: bool) -> None:
        self.core: Core = offline_core(cluster, candidate.config, candidate.registry)
        pending = judged(cluster, self.core)
        self.pods = [*pending, *take_off(self.core)] if replan else pending

    def measures(self) -> Measures:
        return measures_of(self.core.world.cache.nodes, self.core.world.handlers.pods.values())


def compare_dump(
    cluster: LoadedCluster, a: Candidate, b: Candidate, *, replan: bool = False
) -> DumpComparison:
    """Compare what ``a`` and ``b`` make of ``cluster``.

    Args:
        cluster: what there is.
        a: the first configuration.
        b: the second one.
        replan: whether all Pods that run are placed anew, too.

    Raises:
        ConfigError: see `bayplan.app.assembly.build`.
    """
    worlds = [_World(cluster, candidate, replan=replan) for candidate in (a, b)]
    results = [simulate(world.core, world.pods) for world in worlds]
    pods = {pod.key: pod for world in worlds for pod in world.pods}
    found = _differences(pods, *results)
    if found:
        third = _World(cluster, b, replan=replan)
        found = _explained(third, results[0], found)
    plugins = Counter(one.plugin for one in found.values() if one.plugin)
    return DumpComparison(
        len(pods),
        tuple(found[key] for key in sorted(found)),
        dict(sorted(plugins.items(), key=lambda one: (-one[1], one[0]))),
        *(world.measures() for world in worlds),
    )


def _differences(
    pods: dict[str, Pod], a: Sequence[Result], b: Sequence[Result]
) -> dict[str, Difference]:
    sides = [{result["pod"]: _side(result) for result in results} for results in (a, b)]
    found = {}
    for key, pod in pods.items():
        here, there = (side.get(key, Side()) for side in sides)
        change = _change(here, there)
        if change is not None:
            found[key] = Difference(key, owner_of(pod), change, here, there)
    return found


def _side(result: Result) -> Side:
    told = result.get("podGroup", {})
    victims = result.get("victims") or told.get("victims", ())
    return Side(result["node"] or "", result.get("message", ""), tuple(sorted(victims)))


def _change(a: Side, b: Side) -> Change | None:
    if bool(a.node) != bool(b.node):
        return Change.PENDING_IN_B if a.node else Change.PENDING_IN_A
    if a.node != b.node:
        return Change.ELSEWHERE
    if a.victims != b.victims:
        return Change.EVICTIONS
    return Change.MESSAGE if a.message != b.message else None


def _explained(
    world: _World, decisions: Sequence[Result], found: dict[str, Difference]
) -> dict[str, Difference]:
    """The differences with their plugins; ``world`` follows the decisions."""
    core = world.core
    judge = Judge(core.world, core.profiles, core.placers)
    pods = {pod.key: pod for pod in world.pods}
    explained, left = dict(found), min(len(found), EXPLAINED)
    for result in decisions:
        if not left:
            break
        key = result["pod"]
        pod, node = pods.get(key), result["node"]
        if pod is None:
            continue
        if key in found:
            left -= 1
            if "group" not in result:
                explained[key] = _judged(judge, pod, found[key])
        if node:
            core.world.handlers.apply(Changed(POD, pod.on_node(node)))
    return explained


def _judged(judge: Judge, pod: Pod, difference: Difference) -> Difference:
    a = difference.a
    theirs = Theirs(a.node, a.message, victims=frozenset(a.victims))
    verdict = judge.judge(pod, theirs, 0.0).verdict
    return msgspec.structs.replace(
        difference,
        plugin=verdict.plugin,
        points=verdict.difference,
        reasons=verdict.reasons,
        follows=verdict.agreed,
    )
