"""Plan: what would become of Pods that are not there yet, or wait, on the scheduler's state.

New Pods, and what they refer to, enter cache and queue, are decided about one after the other, each
seeing those before it and without those that would be evicted, and are taken out again. All of it
happens between two Pods of the scheduler, on its thread, so that nobody else sees them; nothing is
written. It is plain data in the format ``view.bayplan.dev/v1alpha1`` (docs/why.md).
"""

from __future__ import annotations

import gzip
import io
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from heapq import nsmallest
from typing import Any

import msgspec

from bayplan.api import kinds
from bayplan.api.kinds import POD, Kind
from bayplan.api.pod import Pod
from bayplan.decide.deciding import deciding
from bayplan.decide.group import deciding_group
from bayplan.explain.explanation import eviction, gate_status
from bayplan.explain.group import outcome
from bayplan.explain.judgement import NEAREST
from bayplan.explain.names import Names
from bayplan.explain.why import API_VERSION, Answer
from bayplan.groups.placers import Placers
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.report.pods import cut_note
from bayplan.world import World

MOST_BYTES = 8 * 2**20
"""Of what is to be planned, as JSON."""
MOST_PODS = 500
SECONDS = 0.25
"""After which no further Pod is tried: the scheduler waits meanwhile."""
_KINDS = {
    (kind.api_version, kind.name): kind
    for kind in (
        POD,
        kinds.POD_GROUP,
        kinds.KUBERNETES_POD_GROUP,
        kinds.COMPOSITE_POD_GROUP,
        kinds.RESOURCE_CLAIM,
        kinds.PERSISTENT_VOLUME_CLAIM,
        kinds.REPLICA_SET,
        kinds.REPLICATION_CONTROLLER,
        kinds.STATEFUL_SET,
        kinds.JOB,
        kinds.JOB_SET,
        kinds.LEADER_WORKER_SET,
    )
}
"""Pods, and what says how these belong together or what they use."""

_WAITING = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)

Planned = tuple[Kind[Any], Any]
"""A kind, and an object of it."""


class PlanError(Exception):
    """This cannot be planned; the text says why."""


def decoded(body: bytes) -> list[Planned]:
    """The objects in gzipped JSON, a list of manifests; kinds that do not count are left out.

    Raises:
        PlanError: it is none, or too large; the text names the object.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise PlanError(f"a plan has at most {MOST_BYTES} bytes")
        manifests = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise PlanError(f"the objects are no gzipped list in JSON: {error}") from None
    found = []
    for manifest in manifests:
        kind = _KINDS.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
        if kind is None:
            continue
        try:
            found.append((kind, kind.decode(msgspec.json.encode(manifest))))
        except msgspec.ValidationError as error:
            meta = manifest.get("metadata")
            name = meta.get("name") if isinstance(meta, dict) else None
            raise PlanError(f"{kind.name} {name}: {error}") from None
    pods = sum(kind is POD for kind, _ in found)
    if not 0 < pods <= MOST_PODS:
        raise PlanError(f"a plan is about 1 to {MOST_PODS} Pods, not {pods}")
    return found


def plan(
    world: World,
    profiles: Profiles,
    placers: Placers,
    objects: Sequence[Planned],
    *,
    names: bool,
) -> Answer:
    """What would become of these Pods now. Scheduling thread only.

    Args:
        world: what the scheduler knows.
        profiles: those that decide now.
        placers: the scheduler's.
        objects: as `decoded` has them.
        names: whether nodes, and Pods of other namespaces, may be named.

    Raises:
        PlanError: a Pod is there already, has a node, or is for another scheduler.
    """
    pods = [obj for kind, obj in objects if kind is POD]
    for pod in pods:
        _check(world, profiles, pod)
    others = [
        (kind, obj)
        for kind, obj in objects
        if kind is not POD and world.cache.objects.get(kind, obj.key) is None
    ]
    with world.handlers.supposing([*others, *((POD, pod) for pod in pods)]):
        planning = _Planning(world, profiles, placers)
        planning.run(_units(world, pods))
        return planning.answer(pods, names=names)


def plan_waiting(
    world: World, profiles: Profiles, placers: Placers, *, names: bool, only: str = ""
) -> Answer:
    """What would become now of the queue, in the order of QueueSort. Scheduling thread only.

    Of more than `MOST_PODS` entries the first are planned; the sentence says of how many.

    Args:
        world: what the scheduler knows.
        profiles: those that decide now.
        placers: the scheduler's.
        names: whether nodes, and Pods of other namespaces, may be named.
        only: a namespace: the answer is about the Pods there; "" for about all.
    """
    parts = world.queue.pending_pods()
    entries = [entry for state in _WAITING for entry in parts[state] if entry.pod.deleted is None]
    first = nsmallest(MOST_PODS, entries, key=profiles.policy.sort_key)
    units = [entry if isinstance(entry, QueuedGroup) else entry.pod for entry in first]
    pods = [pod for entry in first for pod in _pods(entry)]
    planning = _Planning(world, profiles, placers)
    planning.run(units)
    shown = [pod for pod in pods if not only or pod.namespace == only]
    answer = planning.answer(shown, names=names)
    if left := len(entries) - len(first):
        answer["sentence"] += f" {left} Pods and groups that come after {MOST_PODS} were not tried."
    return answer


def _check(world: World, profiles: Profiles, pod: Pod) -> None:
    if pod.key in world.handlers.pods:
        raise PlanError(f"Pod {pod.key} is there already: ask why")
    if pod.node_name:
        raise PlanError(f"Pod {pod.key} has a node already: spec.nodeName")
    if pod.spec.scheduler_name not in profiles:
        ours = ", ".join(sorted(profiles))
        asked = f"spec.schedulerName {pod.spec.scheduler_name}"
        raise PlanError(f"Pod {pod.key}: {asked} is none of this scheduler's: {ours}")


def _pods(entry: QueuedPod) -> list[Pod]:
    if isinstance(entry, QueuedGroup):
        return [member.pod for member in entry.members.values()]
    return [entry.pod]


def _units(world: World, pods: Iterable[Pod]) -> Iterator[Pod | QueuedGroup]:
    """Groups in place of their Pods, in the order of the Pods."""
    seen = set[str]()
    for pod in pods:
        entry = world.queue.groups.entry_of_pod(pod)
        if entry is None or pod.uid not in entry.members:
            yield pod
        elif entry.uid not in seen:
            seen.add(entry.uid)
            yield entry


class _Planning:
    """Decides about Pods, one after the other; what was decided stays until all is known."""

    def __init__(self, world: World, profiles: Profiles, placers: Placers) -> None:
        self._world, self._profiles, self._placers = world, profiles, placers
        self._nodes: dict[str, str] = {}
        self._why_not: dict[str, str] = {}
        self._evicted: dict[str, str] = {}

    def run(self, units: Iterable[Pod | QueuedGroup]) -> None:
        until = time.perf_counter() + SECONDS
        with ExitStack() as decisions:
            for unit in units:
                late = time.perf_counter() > until
                if isinstance(unit, QueuedGroup):
                    self._group(decisions, unit, late=late)
                else:
                    self._pod(decisions, unit, late=late)

    def _pod(self, decisions: ExitStack, pod: Pod, *, late: bool = False) -> None:
        framework = self._profiles[pod.spec.scheduler_name]
        if (gate := gate_status(framework, pod)) is not None:
            self._why_not[pod.key] = f"held back by {gate.plugin}: {gate.message}"
            return
        if late:
            self._why_not[pod.key] = _TOO_LATE
            return
        decision = decisions.enter_context(deciding(self._placers, framework, pod))
        rejection = decision.rejection
        if rejection is not None and rejection.nominated and rejection.post_filter is not None:
            self._evict(decisions, eviction(rejection.post_filter).get("victims", ()), pod.key)
            decisions.enter_context(self._placers.nominator.rehearsal([pod]))
            self._placers.nominator.nominate(pod, rejection.nominated)
            decision = decisions.enter_context(deciding(self._placers, framework, pod))
        if decision.member is not None:
            self._nodes[pod.key] = decision.member.pod.node_name
        elif decision.rejection is not None:
            self._why_not[pod.key] = cut_note(decision.rejection.message)

    def _group(self, decisions: ExitStack, entry: QueuedGroup, *, late: bool) -> None:
        missing, group, pods = entry.gathering(), entry.group, entry.pods
        if missing is not None or group is None or late:
            why = _TOO_LATE if missing is None else missing.message
            self._why_not |= dict.fromkeys((pod.key for pod in pods), why)
            return
        framework = self._profiles[entry.profile]
        ask = deciding_group(self._placers, framework, group, pods)
        decision = decisions.enter_context(ask)
        if decision.room is not None and decision.room.victims:
            self._evict(decisions, [pod.key for pod in decision.room.victims], entry.key)
            again = deciding_group(self._placers, framework, group, pods, make_room=False)
            decision = decisions.enter_context(again)
        verdict = outcome(decision)
        self._nodes |= verdict.get("plan", {})
        left = {pod.uid for pod in decision.left} if decision.fits else set[str]()
        for pod in pods:
            if pod.uid in left:
                self._pod(decisions, pod)
            elif pod.key not in self._nodes:
                rejected = verdict.get("rejected", {}).get(pod.key)
                self._why_not[pod.key] = rejected or verdict.get("message", "")

    def _evict(self, decisions: ExitStack, victims: Collection[str], taker: str) -> None:
        """Let these Pods be gone from now on."""
        if not victims:
            return
        cache, known = self._world.cache, self._world.handlers.pods
        decisions.enter_context(cache.trial())
        for key in victims:
            cache.remove(known[key].uid)
            self._evicted[key] = taker

    def answer(self, pods: Sequence[Pod], *, names: bool) -> Answer:
        namespaces = {pod.namespace for pod in pods}
        owners = {pod.key: pod.shape.owner[1] or pod.key for pod in pods}
        placed = [pod.key for pod in pods if pod.key in self._nodes]
        answer: Answer = {"apiVersion": API_VERSION, "kind": "PlanAnswer"}
        answer |= {"pods": len(pods), "placed": len(placed), "evicted": len(self._evicted)}
        answer["token"] = self._token(pods)
        where = [(owners[key], self._nodes[key] if names else "") for key in placed]
        answer["on"] = [
            {"of": of, "pods": number} | ({"node": node} if node else {})
            for (of, node), number in Counter(where).items()
        ]
        answer["rejected"] = self._rejected(pods, owners, namespaces, names=names)
        shown, known = Names(self._world, namespaces).hidden, self._world.handlers.pods
        answer["evictedPods"] = [
            {"pod": key, "for": taker, "node": known[key].node_name}
            if names
            else {"pod": key, "for": shown(taker)}
            for key, taker in sorted(self._evicted.items())
            if names or key.partition("/")[0] in namespaces
        ]
        answer["sentence"] = _sentence(answer)
        return {key: value for key, value in answer.items() if value or value == 0}

    def _rejected(
        self, pods: Sequence[Pod], owners: dict[str, str], namespaces: set[str], *, names: bool
    ) -> list[Answer]:
        """Equal outcomes once."""
        alike: dict[tuple[str, str], list[str]] = {}
        for pod in pods:
            if pod.key not in self._nodes:
                why = self._why_not.get(pod.key, "")
                why = why if names else Names(self._world, namespaces).hidden(why)
                alike.setdefault((owners[pod.key], why), []).append(pod.key)
        return [
            {"of": of, "pods": len(keys), "some": keys[:NEAREST], "message": why}
            for (of, why), keys in alike.items()
        ]

    def _token(self, pods: Sequence[Pod]) -> str:
        """Of who is placed and who is evicted; not of nodes, as equal ones are drawn by lot."""
        placed = sorted(pod.key for pod in pods if pod.key in self._nodes)
        waits = sorted(pod.key for pod in pods if pod.key not in self._nodes)
        said = msgspec.json.encode([placed, waits, sorted(self._evicted)])
        return sha256(said).hexdigest()[:16]


_TOO_LATE = f"not tried: all that was before it took {SECONDS:g} s"


def _sentence(answer: Answer) -> str:
    pods, placed, evicted = answer["pods"], answer["placed"], answer["evicted"]
    if not pods:
        return "Nothing waits."
    if not placed:
        return f"None of {pods} Pods can be placed now."
    text = f"{'All ' if placed == pods else f'{placed} of '}{pods} Pods can be placed now"
    return f"{text}; {evicted} Pods would be evicted." if evicted else f"{text}; nobody is evicted."
