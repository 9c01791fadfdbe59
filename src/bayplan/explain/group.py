"""Explain a group: its present Pods, and the plan for these Pods or the reason for none.

It runs the scheduler's planner (for a PodGroup of Kubernetes, its attempt) as a dry run and drops
the plan, so nothing changes. The result is plain data; empty keys are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.pod import Pod
from bayplan.attempt.group import refusal_of
from bayplan.attempt.placers import Placers
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.report import cut_note, skip_note
from bayplan.attempt.workload_group_report import condition_text
from bayplan.cache.pod_groups import find_workload_group, workload_group_key
from bayplan.explain.explanation import gate_status, raised
from bayplan.framework.room import Room
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.world import World

Verdict = dict[str, Any]
_NONE_LEFT = "none of its Pods can be placed"


class GroupExplainer:
    """Explains groups; each is planned once, however many of its Pods are asked about."""

    def __init__(self, profiles: Profiles, world: World, placers: Placers) -> None:
        self._profiles, self._cache, self._groups = profiles, world.cache, world.queue.groups
        self._planner, self._rooms = placers.planner, placers.rooms
        self._attempts, self._workload_rooms = placers.attempts, placers.workload_rooms
        self._nominator = world.nominator
        self._verdicts: dict[str, Verdict] = {}

    def of_pod(self, pod: Pod) -> Verdict:
        """What becomes of a Pod with its group: ``name``, ``node``, ``message``; empty for none."""
        entry = self._groups.entry_of(pod)
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
        is_workload = not members
        if is_workload:
            members = [pod for pod in present if workload_group_key(pod) == key]
        if not members:
            return None
        running = {pod.key: pod.node_name for pod in members if pod.node_name}
        verdict: Verdict = {"group": key, "running": running, "held": self._held(members)}
        entries = [
            entry
            for entry in self._groups
            if entry.key == key and entry.plugin.workload_api is is_workload
        ]
        for entry in entries:
            verdict |= self._of_entry(entry)
        if not entries:
            without = self._workload_without_entry if is_workload else self._without_entry
            verdict |= without(key, members)
        return {name: value for name, value in verdict.items() if value}

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
        if profile is not None and not profile.plugins.grouping:
            return {"message": f"the profile {profile.name} does not place groups (Coscheduling)"}
        return {"message": "WaitingForMembers: none can be placed"}

    def _workload_without_entry(self, _key: str, members: list[Pod]) -> Verdict:
        waiting = [pod for pod in members if not pod.node_name]
        profile = self._profiles.get(members[0].spec.scheduler_name)
        if not waiting or profile is None:
            return {}
        if not any(plugin.workload_api for plugin in profile.plugins.grouping):
            text = f"the profile {profile.name} does not place PodGroups of Kubernetes"
            return {"message": f"{text} (the feature gate GenericWorkload, GangScheduling)"}
        return {"message": _NONE_LEFT}

    def _of_entry(self, entry: QueuedGroup) -> Verdict:
        if entry.uid not in self._verdicts:
            planned = self._attempted if entry.plugin.workload_api else self._planned
            with self._nominator.rehearsal(entry.pods):
                self._verdicts[entry.uid] = planned(entry)
        return self._verdicts[entry.uid]

    def _attempted(self, entry: QueuedGroup) -> Verdict:
        """Of a PodGroup of Kubernetes."""
        pod_group, missing = find_workload_group(self._cache.objects, entry.key), entry.gathering()
        verdict: Verdict = {"members": [pod.key for pod in entry.pods]}
        if pod_group is not None:
            verdict["minimum"] = pod_group.minimum
        if missing is not None or pod_group is None:
            return verdict | {"message": missing.message if missing is not None else ""}
        if not entry.pods:
            return verdict | {"message": _NONE_LEFT}
        framework = self._profiles[entry.profile]
        untried, done = self._workload_rooms.dry_run(framework, pod_group, entry.pods)
        failures = {pod.key: rejection for pod, rejection in done.failures(untried.status)}
        verdict["rejected"] = {key: cut_note(r.message) for key, r in failures.items()}
        faults = (raised(rejection.fault) for rejection in failures.values())
        verdict |= next((fault for fault in faults if fault), {})
        if done.status.ok:
            members = [placed.member.pod for placed in done.placed]
            verdict["plan"] = {pod.key: pod.node_name for pod in members}
            self._attempts.undo(done)
        else:
            verdict["message"] = condition_text(done.status)
        return verdict | _room(done.room, entry.pods)

    def _planned(self, entry: QueuedGroup) -> Verdict:
        group, pods, missing = entry.group, entry.pods, entry.gathering()
        verdict: Verdict = {"members": [pod.key for pod in pods]}
        if group is not None:
            verdict["minimum"] = group.minimum
        if missing is not None or group is None:
            return verdict | {"message": missing.message if missing is not None else ""}
        framework = self._profiles[entry.profile]
        refusal = refusal_of(framework, group, pods)
        outcome = refusal or self._planner.plan(framework, group, pods, dry_run=True)
        if isinstance(outcome, GroupRejection):
            outcome = self._rooms.make_room(framework, group, pods, outcome, dry_run=True)
            return verdict | _rejection(outcome, pods)
        self._planner.drop(outcome)
        return verdict | _plan(outcome)


def _rejection(rejection: GroupRejection, pods: Iterable[Pod]) -> Verdict:
    verdict: Verdict = {"message": rejection.sentence} | raised(rejection.fault)
    return verdict | _room(rejection.room, pods)


def _room(room: Room | None, pods: Iterable[Pod]) -> Verdict:
    if room is None:
        return {}
    nominated = {pod.key: room.nodes[pod.uid] for pod in pods if pod.uid in room.nodes}
    return {"victims": [pod.key for pod in room.victims], "nominated": nominated}


def _plan(plan: Plan) -> Verdict:
    verdict: Verdict = {
        "plan": {member.pod.key: member.pod.node_name for member in plan.members},
        "left": [pod.key for pod in plan.left],
    }
    domains = {name: {"level": d.level, "value": d.value} for name, d in plan.domains.items()}
    if domain := domains.pop("", None):
        verdict["domain"] = domain
    return verdict | {"subGroups": dict(sorted(domains.items()))}
