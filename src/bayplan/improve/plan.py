"""Plan: the answer of ``bayplan improve`` as data, and what stands against a goal.

The format is ``view.bayplan.dev/v1alpha1``, kind ``ImprovePlan``; docs/improve.md has the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import msgspec

from bayplan.api.kinds import NAMESPACE
from bayplan.api.pod import Pod
from bayplan.api.workloads import NOT_MADE_AGAIN
from bayplan.attempt.outcome import Rejection
from bayplan.decide.deciding import deciding
from bayplan.decide.group import deciding_group
from bayplan.explain.why import API_VERSION
from bayplan.improve.deciders import Deciders
from bayplan.improve.descent import Descent
from bayplan.improve.goals import Gain, Goal, GoalError
from bayplan.improve.movable import Movable
from bayplan.improve.orders import fingerprint
from bayplan.improve.proof import Move, Proven, Prover, measured
from bayplan.improve.search import Search
from bayplan.improve.trials import Trials
from bayplan.measures import named
from bayplan.report.pods import cut_note

KIND = "ImprovePlan"
MOST_MOVES = 16
SECONDS = 10.0
SYSTEM = "kube-system"
"""The namespace whose uid names the cluster."""
Answer = dict[str, Any]
_OF_NODES = NOT_MADE_AGAIN.keys() - {""}
"""Kinds of owners whose Pods belong to their node."""


def improve(
    core: Deciders,
    goal: Goal,
    now: float,
    *,
    most: int = MOST_MOVES,
    seconds: float = SECONDS,
    keeps: Callable[[Pod], str] = lambda _: "",
    is_told: bool = True,
) -> Answer:
    """The fewest moves to reach the goal, or what is against it. Scheduling thread only.

    Args:
        core: the cluster; nothing of it is changed.
        goal: what is to hold.
        now: seconds since the epoch.
        most: Pods to be moved, at most.
        seconds: after which no more plans are looked for.
        keeps: see `Movable`.
        is_told: whether somebody reads what is against the goal.

    Raises:
        GoalError: there is nothing to look for, such as a node to be empty with Pods that stay.
    """
    movable = Movable(core, now, mending=goal.mends, keeps=keeps)
    if goal.gain is not None:
        return _by_descent(core, goal, movable, goal.gain, most, seconds)
    _check(core, goal, movable, most)
    trials = Trials(core)
    prover, search = Prover(core, trials, goal), Search(core, movable, trials, goal, seconds)
    with core.placers.selector.rehearsal(), core.world.nominator.rehearsal(goal.pods):
        search.run(most, prover.prove)
        proven = prover.proven
        looked = search.all and prover.all
        why = [_no_plan(search, all_of_them=looked)]
        if is_told and proven is None:
            why += _against(core, goal, movable, most)
    answer: Answer = {"apiVersion": API_VERSION, "kind": KIND, "goal": goal.title}
    answer |= {"reached": proven is not None, "tries": trials.tries}
    if proven is None:
        return answer | {"sentence": why[0], "against": why[1:]}
    return answer | _plan(core, goal, proven)


def _by_descent(
    core: Deciders, goal: Goal, movable: Movable, gain: Gain, most: int, seconds: float
) -> Answer:
    """The fewest moves after which a measure has fallen far enough."""
    trials = Trials(core)
    descent = Descent(core, movable, trials, gain, seconds)
    with core.placers.selector.rehearsal():
        proven = descent.run(most)
    answer: Answer = {"apiVersion": API_VERSION, "kind": KIND, "goal": goal.title}
    answer |= {"reached": proven is not None, "tries": trials.tries, "fall": descent.best}
    if proven is not None:
        return answer | _plan(core, goal, proven)
    against = [f"The most that was found: {descent.best:.4g} of {gain.needed:.4g}"]
    against += _stays(core, movable, most)
    return answer | {"sentence": _no_plan(descent, all_of_them=descent.all), "against": against}


def _check(core: Deciders, goal: Goal, movable: Movable, most: int) -> None:
    """Raise a GoalError if a Pod stays on a node to be emptied."""
    here = [pod for pod in _on_rows(core, goal.empty) if not _of_its_node(pod)]
    _, stays = movable.count(here)
    if stays:
        some = next(pod.key for pod in here if movable.unit(pod) is None)
        text = "; ".join(f"{number}: {why}" for why, number in stays.most_common())
        raise GoalError(f"it cannot be that {goal.title}: Pods stay, such as {some}: {text}")
    units = {unit.key: unit for pod in here if (unit := movable.unit(pod)) is not None}
    pods = sum(len(unit.pods) for unit in units.values())
    if pods > most:
        raise GoalError(
            f"it cannot be that {goal.title}: {pods} Pods have to move, at most {most} may"
        )


def _on_rows(core: Deciders, rows: Iterable[int]) -> list[Pod]:
    nodes = core.world.cache.nodes
    return [pod for row in rows for pod in nodes.pods[row].values()]


def _of_its_node(pod: Pod) -> bool:
    return pod.controller[0].rpartition("/")[2] in _OF_NODES


def _against(core: Deciders, goal: Goal, movable: Movable, most: int) -> list[str]:
    """What stands against the goal."""
    against = [text for text in (_rejection(core, goal),) if text]
    return [*against, *_stays(core, movable, most)]


def _no_plan(search: Search | Descent, *, all_of_them: bool) -> str:
    how = "" if all_of_them else ", not all of them looked at"
    if search.timed_out:
        how = ", when the time was over"
    if search.until < 0:
        return f"No plan was found{how}."
    moves = f"Up to {_number(search.until, 'move')} do not help"
    return f"{moves if search.until else 'Without a move it does not fit'}{how}."


def _stays(core: Deciders, movable: Movable, most: int) -> list[str]:
    may, stays = movable.count(core.world.cache.pods())
    texts = [f"Pods that stay: {number}: {why}" for why, number in stays.most_common()]
    return [*texts, f"Pods that may move: {may}, at most {most} of them in one plan"]


def _rejection(core: Deciders, goal: Goal) -> str:
    """Why the goal does not hold now."""
    if not goal.pods:
        return "the Pods on it do not all fit elsewhere"
    framework = core.profiles[goal.pods[0].spec.scheduler_name]
    if goal.group is not None:
        with deciding_group(
            core.placers, framework, goal.group, goal.pods, make_room=False
        ) as group:
            return "" if group.rejection is None else group.rejection.sentence
    with deciding(core.placers, framework, goal.pods[0]) as decision:
        rejection: Rejection | None = decision.rejection
        return "" if rejection is None else cut_note(rejection.message)


def _plan(core: Deciders, goal: Goal, proven: Proven) -> Answer:
    placed = {pod.key: proven.placed[pod.uid] for pod in goal.pods if pod.uid in proven.placed}
    moves = [_move(move) for move in proven.moves]
    names = {*placed.values(), *(name for move in moves for name in (move["from"], move["to"]))}
    nodes = core.world.cache.nodes
    named_nodes = {
        name: fingerprint(node)
        for name in sorted(names)
        if (row := nodes.row(name)) is not None and (node := nodes.nodes[row]) is not None
    }
    system = core.world.cache.objects.get(NAMESPACE, SYSTEM)
    before, after = named(measured(core)), named(proven.after)
    said = msgspec.json.encode([goal.title, moves, placed, named_nodes])
    return {
        "sentence": _sentence(goal, len(moves)),
        "moves": moves,
        "placed": placed,
        "waiting": {pod.key: pod.uid for pod in goal.pods if pod.uid in proven.placed},
        "mends": goal.mends,
        "emptied": sorted(nodes.names[row] or "" for row in goal.empty),
        "restarts": len(moves),
        "cluster": "" if system is None else system.uid,
        "nodes": named_nodes,
        "before": before,
        "after": {name: after[name] for name in before if name in after},
        "token": sha256(said).hexdigest()[:16],
    }


def _move(move: Move) -> Answer:
    pod = move.pod
    answer: Answer = {"step": move.step, "pod": pod.key, "owner": "/".join(pod.controller)}
    answer |= {"from": pod.node_name, "to": move.target}
    if move.fits:
        answer |= {"fits": move.fits, "rank": move.rank}
    return answer | {"uid": pod.uid, "resourceVersion": pod.resource_version}


def _sentence(goal: Goal, moves: int) -> str:
    if not moves:
        return f"No move is needed: {goal.title} now." if goal.pods else f"{goal.title} already."
    return f"{_number(moves, 'move')}, and {goal.title}."


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
