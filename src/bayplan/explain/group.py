"""Explain a group: its present Pods, and the plan for these Pods or the reason for none.

The scheduler's own decision about the group is made and dropped, so nothing changes. The result is
plain data; empty keys are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from bayplan.api.kinds import COMPOSITE_POD_GROUP
from bayplan.api.pod import Pod
from bayplan.cache.group_policy import KUBERNETES, Words
from bayplan.cache.kubernetes_groups import pod_group_key
from bayplan.decide.group import deciding_group
from bayplan.engine.faults import AttemptFault
from bayplan.engine.runtime import Framework
from bayplan.explain.explanation import gate_status, node_outcomes, raised
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.room import Room
from bayplan.groups.capacity import kinds_of
from bayplan.groups.decision import GroupDecision
from bayplan.groups.domains import Domain
from bayplan.groups.placers import Placers
from bayplan.groups.words_kubernetes import condition_text, failures
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.report.pods import cut_note, skip_note
from bayplan.world import World

Verdict = dict[str, Any]
MOST_KINDS = 3
"""Kinds of Pods of a group that does not fit, of which every node's answer is shown."""
_NONE_LEFT = "none of its Pods can be placed"


class GroupExplainer:
    """Explains groups; each is planned once, however many of its Pods are asked about."""

    def __init__(self, profiles: Profiles, world: World, placers: Placers) -> None:
        self._profiles, self._cache, self._groups = profiles, world.cache, world.queue.groups
        self._placers = placers
        self._verdicts: dict[str, Verdict] = {}

    def of_pod(self, pod: Pod) -> Verdict:
        """What becomes of a Pod with its group: ``name``, ``node``, ``message``; empty for none."""
        entry = self._groups.entry_of_pod(pod)
        if entry is None or pod.uid not in entry.members:
            return {}
        verdict = self._of_entry(entry)
        answer = {"name": entry.key, "node": verdict.get("plan", {}).get(pod.key)}
        answer["message"] = verdict.get("rejected", {}).get(pod.key) or verdict.get("message")
        return {key: value for key, value in answer.items() if value}

    def of_group(self, key: str, pods: Iterable[Pod]) -> Verdict | None:
        """What becomes of the group ``key``; ``pods`` are all there are. None for no such group.

        A PodGroup of Kubernetes gives way to a group of the label that has its name.
        """
        present = [pod for pod in pods if not pod.terminal]
        members = [pod for pod in present if self._cache.groups.key_of(pod) == key]
        is_workload, root = not members, key
        if is_workload:
            members = self._kubernetes_members(key, present)
            root = self._cache.kubernetes_groups.key_of(members[0]) if members else key
        if not members:
            return None
        running = {pod.key: pod.node_name for pod in members if pod.node_name}
        verdict: Verdict = {"group": key, "running": running, "held": self._held(members)}
        entries = [
            entry
            for entry in self._groups
            if entry.key == root and (entry.plugin.policy is KUBERNETES) is is_workload
        ]
        for entry in entries:
            verdict |= self._of_entry(entry)
            if entry.group is not None and "plan" not in verdict and entry.gathering() is None:
                verdict["against"] = self._against(self._profiles[entry.profile], entry.pods)
        if not entries:
            without = self._workload_without_entry if is_workload else self._without_entry
            verdict |= without(key, members)
        return {name: value for name, value in verdict.items() if value}

    def _kubernetes_members(self, key: str, pods: Iterable[Pod]) -> list[Pod]:
        """The Pods of the PodGroup, or else of the CompositePodGroup, of that name."""
        namespace, _, name = key.rpartition("/")
        composite = f"{namespace}/{COMPOSITE_POD_GROUP.name}/{name}"
        groups, in_groups = self._cache.kubernetes_groups, [pod for pod in pods if pod.pod_group]
        members = [pod for pod in in_groups if pod_group_key(pod) == key]
        return members or [pod for pod in in_groups if groups.key_of(pod) == composite]

    def _held(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Why each Pod without a node cannot be placed now."""
        held = {}
        for pod in pods:
            framework = self._profiles.get(pod.spec.scheduler_name)
            if pod.node_name:
                continue
            if framework is None:
                held[pod.key] = f"there is no profile {pod.spec.scheduler_name}"
            elif (gate := gate_status(framework, pod)) is not None:
                held[pod.key] = f"held back by {gate.plugin}: {gate.message}"
            elif pod.deleted is not None:
                held[pod.key] = skip_note(pod)
        return held

    def _without_entry(self, key: str, members: list[Pod]) -> Verdict:
        if self._groups.has_begun(key):
            waiting = [pod.key for pod in members if not pod.node_name]
            text = "the group has begun; a Pod of it that waits goes singly"
            return {"members": waiting, "message": text if waiting else ""}
        profile = self._profiles.get(members[0].spec.scheduler_name)
        if profile is not None and not profile.services.group_sources:
            return {"message": f"the profile {profile.name} does not place groups (Coscheduling)"}
        return {"message": "WaitingForMembers: none can be placed"}

    def _workload_without_entry(self, _key: str, members: list[Pod]) -> Verdict:
        waiting = [pod for pod in members if not pod.node_name]
        profile = self._profiles.get(members[0].spec.scheduler_name)
        if not waiting or profile is None:
            return {}
        if not any(source.policy is KUBERNETES for source in profile.services.group_sources):
            text = f"the profile {profile.name} does not place PodGroups of Kubernetes"
            return {"message": f"{text} (the feature gate GenericWorkload, GangScheduling)"}
        return {"message": _NONE_LEFT}

    def _against(self, framework: Framework, pods: Iterable[Pod]) -> Verdict:
        """Of a Pod of each kind, what every node says to it alone, before the others take room."""
        against: Verdict = {}
        for pod in list(kinds_of(pods).values())[:MOST_KINDS]:
            with suppress(AttemptFault):  # it is logged, and the group's own verdict has it
                diagnosis, rejection = framework.search.diagnose(CycleState(timed=False), pod)
                if rejection is None:
                    against[pod.key] = node_outcomes(diagnosis)
        return against

    def _of_entry(self, entry: QueuedGroup) -> Verdict:
        if entry.uid not in self._verdicts:
            self._verdicts[entry.uid] = self._verdict(entry)
        return self._verdicts[entry.uid]

    def _verdict(self, entry: QueuedGroup) -> Verdict:
        group, pods, missing = entry.group, entry.pods, entry.gathering()
        verdict: Verdict = {"members": [pod.key for pod in pods]}
        if group is not None:
            verdict["minimum"] = group.minimum
        if missing is not None or group is None:
            return verdict | {"message": missing.message if missing is not None else ""}
        if not pods:
            return verdict | {"message": _NONE_LEFT}
        framework = self._profiles[entry.profile]
        with deciding_group(self._placers, framework, group, pods) as decision:
            return verdict | outcome(decision)


def outcome(decision: GroupDecision) -> Verdict:
    """A decision in the words of the group: ``plan``, or ``message``, ``victims``, and so on."""
    render = _kubernetes if decision.group.policy.words is Words.CONDITION else _label
    return render(decision) | _room(decision.room, decision.pods)


def _kubernetes(decision: GroupDecision) -> Verdict:
    rejections = {pod.key: rejection for pod, rejection in failures(decision)}
    verdict: Verdict = {"rejected": {key: cut_note(r.message) for key, r in rejections.items()}}
    faults = (raised(rejection.fault) for rejection in rejections.values())
    verdict |= next((fault for fault in faults if fault), {})
    if decision.fits:
        return verdict | {"plan": _plan(decision)} | _domains(decision)
    return verdict | {"message": condition_text(decision.status)}


def _label(decision: GroupDecision) -> Verdict:
    rejection = decision.rejection
    if rejection is not None:
        return {"message": rejection.sentence} | raised(rejection.fault)
    verdict: Verdict = {"plan": _plan(decision), "left": [pod.key for pod in decision.left]}
    return verdict | _domains(decision)


def _domains(decision: GroupDecision) -> Verdict:
    """Where the topology of the group, or of a part, has limited its Pods to one domain."""
    domains: dict[str, Any] = {name: _domain(d) for name, d in decision.domains.items()}
    own = domains.pop("", {})
    slices: dict[str, Any] = {
        name: [_domain(domain) | {"pods": pods} for domain, pods in shares]
        for name, shares in decision.slices.items()
    }
    mine = slices.pop("", [])
    for name, shares in slices.items():
        domains.setdefault(name, {})["slices"] = shares
    return {"domain": own, "slices": mine, "subGroups": dict(sorted(domains.items()))}


def _domain(domain: Domain) -> Verdict:
    return {"level": domain.level, "value": domain.value}


def _plan(decision: GroupDecision) -> dict[str, str]:
    return {member.pod.key: member.pod.node_name for member in decision.members}


def _room(room: Room | None, pods: Iterable[Pod]) -> Verdict:
    if room is None:
        return {}
    nominated = {pod.key: room.nodes[pod.uid] for pod in pods if pod.uid in room.nodes}
    return {"victims": [pod.key for pod in room.victims], "nominated": nominated}
