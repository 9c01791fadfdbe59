"""Explain a group: which of its Pods are there, and the plan for them, or why there is none.

It runs the scheduler's planner as a dry run and drops the plan, so nothing changes. The result is
plain data; empty keys are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.pod import Pod
from bayplan.attempt.group import Planner, refusal_of
from bayplan.attempt.plan import GroupRejection, Plan
from bayplan.attempt.report import skip_note
from bayplan.attempt.room import RoomMaker
from bayplan.cache.groups import Groups
from bayplan.explain.explanation import gate_status, raised
from bayplan.profiles import Profiles
from bayplan.queue.groups import QueuedGroups
from bayplan.queue.queued_group import QueuedGroup

Verdict = dict[str, Any]


class GroupExplainer:
    """Explains groups; each is planned once, however many of its Pods are asked about."""

    def __init__(
        self,
        profiles: Profiles,
        keys: Groups,
        groups: QueuedGroups,
        planner: Planner,
        rooms: RoomMaker,
    ) -> None:
        self._profiles, self._keys, self._groups = profiles, keys, groups
        self._planner, self._rooms = planner, rooms
        self._verdicts: dict[str, Verdict] = {}

    def of_pod(self, pod: Pod) -> Verdict:
        """What becomes of a Pod with its group: ``name``, ``node``, ``message``; empty for none."""
        entry = self._groups.entry_of(pod)
        if entry is None or pod.uid not in entry.members or entry.plugin.workload_api:
            return {}
        verdict = self._of_entry(entry)
        answer = {"name": entry.key, "node": verdict.get("plan", {}).get(pod.key)}
        answer["message"] = verdict.get("message")
        return {key: value for key, value in answer.items() if value}

    def of_group(self, key: str, pods: Iterable[Pod]) -> Verdict | None:
        """What becomes of the group ``key``; ``pods`` are all there are. None for no such group."""
        members = [pod for pod in pods if self._keys.key_of(pod) == key and not pod.terminal]
        labelled = (entry for entry in self._groups if not entry.plugin.workload_api)
        entries = [entry for entry in labelled if entry.key == key]
        if not members:
            return None
        running = {pod.key: pod.node_name for pod in members if pod.node_name}
        verdict: Verdict = {"group": key, "running": running, "held": self._held(members)}
        for entry in entries:
            verdict |= self._of_entry(entry)
        if not entries:
            verdict |= self._without_entry(key, members)
        return {name: value for name, value in verdict.items() if value}

    def _held(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Why Pods without a node are not among those that can be placed."""
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
        if not self._groups.gathers(key):
            waiting = [pod.key for pod in members if not pod.node_name]
            text = "the group has begun; a Pod of it that waits goes singly"
            return {"members": waiting, "message": text if waiting else ""}
        profile = self._profiles.get(members[0].spec.scheduler_name)
        if profile is not None and not profile.plugins.grouping:
            return {"message": f"the profile {profile.name} does not place groups (Coscheduling)"}
        return {"message": "WaitingForMembers: none can be placed"}

    def _of_entry(self, entry: QueuedGroup) -> Verdict:
        if entry.uid not in self._verdicts:
            self._verdicts[entry.uid] = self._planned(entry)
        return self._verdicts[entry.uid]

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
    if (room := rejection.room) is not None:
        verdict["victims"] = [pod.key for pod in room.victims]
        verdict["nominated"] = {p.key: room.nodes[p.uid] for p in pods if p.uid in room.nodes}
    return verdict


def _plan(plan: Plan) -> Verdict:
    verdict: Verdict = {
        "plan": {member.pod.key: member.pod.node_name for member in plan.members},
        "left": [pod.key for pod in plan.left],
    }
    if plan.domain is not None:
        verdict["domain"] = {"level": plan.domain.level, "value": plan.domain.value}
    return verdict
