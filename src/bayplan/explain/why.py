"""Why: what the running scheduler says of one Pod or group, from its own state and plugins.

An answer is plain data in the format ``view.bayplan.dev/v1alpha1`` (docs/why.md): first a sentence,
then what came of the last attempt, where the Pod is in the queue, its group and tenant, and the
decision as it would be made now, which is made and dropped. Amounts are in the units of
`bayplan.api.quantity.of`: milli-CPU, bytes, counts. Empty keys are left out.

Whoever may not see nodes gets counts in place of the names of nodes, and of Pods in other
namespaces. All of it runs on the scheduling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bayplan.api import quantity
from bayplan.api.pod import Pod
from bayplan.cache.node_table import IntArray, NodeTable
from bayplan.cache.requests import pod_requests
from bayplan.decide.deciding import Decision, deciding
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.explain.explanation import eviction, gate_status
from bayplan.explain.group import GroupExplainer
from bayplan.explain.names import Names
from bayplan.groups.placers import Placers
from bayplan.profiles import Profiles
from bayplan.queue.queued_group import QueuedGroup
from bayplan.queue.queued_pod import QueuedPod
from bayplan.queue.states import QueueState
from bayplan.report.pods import cut_note
from bayplan.report.records import Record, Records
from bayplan.world import World

Answer = dict[str, Any]

API_VERSION = "view.bayplan.dev/v1alpha1"
NEAREST = 5
"""Nodes that are named with their scores, and almost-fits."""
FIT = "NodeResourcesFit"
MOST_PLANNED = 500
"""Pods of a group that is planned for an answer: some 50 ms."""


class Why:
    """Answers about Pods and groups.

    Args:
        world: what the scheduler knows.
        profiles: those that decide now.
        placers: the scheduler's.
        records: what came of the last attempts.
        names: whether nodes, and Pods of other namespaces, may be named.
    """

    def __init__(
        self,
        world: World,
        profiles: Profiles,
        placers: Placers,
        records: Records,
        *,
        names: bool,
    ) -> None:
        self._world, self._profiles, self._placers = world, profiles, placers
        self._records, self._names = records, names
        self._groups = GroupExplainer(profiles, world, placers)

    def of_pod(self, namespace: str, name: str) -> Answer | None:
        """The answer about a Pod; None for one that was never seen."""
        key = f"{namespace}/{name}"
        pod = self._world.handlers.pods.get(key)
        record = self._records.named(key) if pod is None else self._records.of(pod.uid)
        answer: Answer = {"apiVersion": API_VERSION, "kind": "PodAnswer", "pod": key}
        if record is not None:
            answer["last"] = self._last(record)
        if pod is None:
            if record is None:
                return None
            answer["state"] = "Gone"
        elif pod.node_name or self._world.cache.is_assumed(pod.uid):
            answer |= self._with_node(pod)
        elif pod.spec.scheduler_name not in self._profiles:
            answer |= {"state": "NotOurs", "scheduler": pod.spec.scheduler_name}
        else:
            answer |= self._pending(pod)
        return self._finished(answer, namespace, sentence)

    def of_group(self, namespace: str, name: str) -> Answer | None:
        """The answer about a group; None where no Pod is in one of that name.

        Args:
            namespace: of the group.
            name: of the PodGroup; of one without, ``KIND/name``, such as ``Job/train``.
        """
        key = f"{namespace}/{name}"
        answer: Answer = {"apiVersion": API_VERSION, "kind": "GroupAnswer", "group": key}
        entries = [entry for entry in self._world.queue.groups if entry.key == key]
        for entry in entries:
            answer |= self._group(entry)
        if sum(len(entry.members) for entry in entries) <= MOST_PLANNED:
            pods = [p for p in self._world.handlers.pods.values() if p.namespace == namespace]
            verdict = self._groups.of_group(key, pods)
            if verdict is None:
                return None
            answer |= {"placed": len(verdict.get("running", ()))}
            answer["now"] = self._planned(verdict, namespace)
        return self._finished(answer, namespace, sentence_of_group)

    def _finished(self, answer: Answer, namespace: str, say: Callable[[Answer], str]) -> Answer:
        if not self._names:
            answer = Names(self._world, (namespace,)).hide(answer)
        answer["sentence"] = say(answer)
        return {key: value for key, value in answer.items() if value or value == 0}

    def _planned(self, verdict: Answer, namespace: str) -> Answer:
        """What the group's decision would be; ``verdict`` as `GroupExplainer` has it."""
        plan, rejected = verdict.get("plan", {}), verdict.get("rejected", {})
        now: Answer = {"planned": len(plan), "message": verdict.get("message")}
        now["rejected"] = dict(list(rejected.items())[:NEAREST])
        now["held"] = dict(list(verdict.get("held", {}).items())[:NEAREST])
        now["eviction"] = self._pods("victims", verdict.get("victims", ()), namespace)
        if self._names:
            now |= {"plan": plan, "domain": verdict.get("domain")}
            now |= {key: verdict.get(key) for key in ("slices", "subGroups")}
        return {key: value for key, value in now.items() if value}

    def _last(self, record: Record) -> Answer:
        at = datetime.fromtimestamp(record.at, UTC)
        last = {
            "time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "reason": record.reason,
            "message": cut_note(record.message),
        }
        if record.node and (self._names or record.reason == "Scheduled"):
            last["node"] = record.node
        return {key: value for key, value in last.items() if value}

    def _with_node(self, pod: Pod) -> Answer:
        assumed = self._world.cache.pod(pod.uid) or pod
        answer: Answer = {"state": "Running" if pod.node_name else "Binding"}
        answer["node"] = assumed.node_name
        waiting = self._world.waiting.get(pod.uid)
        if waiting is not None:
            seconds = max(waiting.deadline() - self._world.queue.now(), 0.0)
            plugins = waiting.pending_plugins()
            answer["state"] = "WaitsInPermit"
            answer["permit"] = {"plugins": plugins, "secondsLeft": round(seconds, 1)}
        return answer

    # A Pod without a node

    def _pending(self, pod: Pod) -> Answer:
        framework = self._profiles[pod.spec.scheduler_name]
        answer: Answer = {"state": "Pending", "tenant": self._tenant(pod)}
        queued = self._world.queue.get(pod.uid)
        if queued is not None:
            answer["queue"] = self._queue(queued)
        entry = self._world.queue.groups.entry_of_pod(pod)
        if entry is not None and pod.uid in entry.members:
            answer["group"] = {"name": entry.key} | self._group(entry)
            if len(entry.members) <= MOST_PLANNED:
                planned = self._groups.of_pod(pod)
                seen = ("node", "message") if self._names else ("message",)
                answer["now"] = {part: planned[part] for part in seen if part in planned}
        nominated = self._world.nominator.nominated_node(pod.uid)
        if nominated:
            answer["nominated"] = self._nominated(pod, nominated)
        if queued is not None and queued.gating_plugin == PLUGIN_TIMEOUT:
            # The same plugin would be asked, and stop everything once more.
            answer["now"] = {"heldBy": PLUGIN_TIMEOUT, "message": queued.gating_reason}
            return answer
        gate = gate_status(framework, pod)
        if gate is not None:
            answer["now"] = {"heldBy": gate.plugin, "message": gate.message}
        elif pod.deleted is None and "group" not in answer:
            with deciding(self._placers, framework, pod, detailed=True) as decision:
                answer["now"] = self._decided(pod, decision)
        return answer

    def _queue(self, queued: QueuedPod) -> Answer:
        queue = self._world.queue
        answer: Answer = {"state": str(queued.state), "attempts": queued.attempts}
        first = queued.initial_attempt_timestamp
        if first is not None:
            answer["waitingSeconds"] = round(queue.now() - first, 1)
        if queued.state is QueueState.BACKOFF:
            answer["backoffSeconds"] = round(queue.backoff_left(queued), 1)
        if queued.rejectors:
            answer["rejectedBy"] = sorted(queued.rejectors)
        if queued.gating_plugin:
            answer["heldBy"] = f"{queued.gating_plugin}: {queued.gating_reason}"
        return answer

    def _group(self, entry: QueuedGroup) -> Answer:
        missing, group = entry.gathering(), entry.group
        said = missing.message if missing is not None else entry.last_report
        answer: Answer = {"waiting": len(entry.members), "message": said}
        answer["placed"] = sum(entry.scheduled().values())
        if group is not None:
            answer["minimum"] = group.minimum
        return answer | {"queue": self._queue(entry)}

    def _tenant(self, pod: Pod) -> Answer:
        queues = self._world.queues
        charge = queues.charge(pod) if queues.active else None
        if charge is None:
            return {}
        sums = queues.refresh_shares()
        structure = sums.structure
        row = charge.row
        asked = pod_requests(pod).amounts
        resources = {}
        for column, resource in enumerate(structure.resources):
            if not asked.get(resource) and resource != "pods":
                continue
            limits = [int(structure.limit[link, column]) for link in structure.links[row]]
            resources[resource] = {
                "requested": asked.get(resource, 1),
                "used": sums.used_rows[row][column],
                "share": int(sums.share[row, column]),
                "guaranteed": int(structure.guaranteed[row, column]),
            }
            if min(limits) < 2**62:
                resources[resource]["limit"] = min(limits)
        return {"queue": structure.name(row), "resources": resources}

    def _nominated(self, pod: Pod, node: str) -> Answer:
        answer: Answer = {"node": node} if self._names else {}
        running = self._world.evictions.eviction(pod.uid)
        if running is not None:
            there = [p for uid, p in running.victims.items() if self._world.cache.pod(uid)]
            answer |= self._pods("leaving", [victim.key for victim in there], pod.namespace)
        return answer

    def _pods(self, title: str, keys: Iterable[str], namespace: str) -> Answer:
        """Pods by name, as far as these may be named, and how many they are."""
        every = sorted(keys)
        named = [key for key in every if self._names or key.startswith(f"{namespace}/")]
        return {title: len(every), f"{title}Pods": named[:NEAREST]} if every else {}

    def _decided(self, pod: Pod, decision: Decision) -> Answer:
        rejection, placement = decision.rejection, decision.placement
        answer: Answer = {}
        diagnosis = rejection.diagnosis if rejection is not None else None
        if placement is not None and decision.detail is not None:
            diagnosis = decision.detail.diagnosis
            answer["fitting"] = placement.feasible
            if self._names:
                answer["node"] = placement.node_name
                answer["best"] = self._best(decision)
        if rejection is not None:
            answer["message"] = cut_note(rejection.message)
            answer["reason"] = str(rejection.reason)
            if rejection.post_filter is not None and rejection.nominated:
                victims = eviction(rejection.post_filter).get("victims", ())
                answer["eviction"] = self._pods("victims", victims, pod.namespace)
        if diagnosis is not None and diagnosis.pre_filter is None:
            answer["rejected"] = self._rejected(diagnosis)
            if placement is None:
                answer["almost"] = self._almost(pod, diagnosis)
        return {key: value for key, value in answer.items() if value}

    def _rejected(self, diagnosis: Diagnosis) -> list[Answer]:
        """How many nodes each plugin rejects, and for what; the most first."""
        groups = sorted(diagnosis.groups(), key=lambda group: -len(group[1]))
        answers = []
        for status, rows in groups:
            answer = {"plugin": status.plugin, "nodes": len(rows), "reasons": list(status.reasons)}
            if self._names:
                answer["some"] = _names(diagnosis.nodes, rows[:NEAREST])
            answers.append(answer)
        return answers

    def _best(self, decision: Decision) -> list[Answer]:
        """The nodes with the highest scores."""
        detail = decision.detail
        if detail is None or not detail.scores:
            return []
        nodes = detail.diagnosis.nodes
        totals = np.zeros(len(nodes), np.int64)
        rated = np.zeros(len(nodes), np.bool_)
        for part in detail.scores:
            totals[part.rows] += part.scores
            rated[part.rows] = True
        rows = np.flatnonzero(rated)
        first = rows[np.argsort(-totals[rows], kind="stable")[:NEAREST]]
        names = _names(nodes, first)
        return [
            {
                "node": name,
                "total": int(totals[row]),
                "scores": {
                    part.plugin: int(part.scores[part.rows == row][0])
                    for part in detail.scores
                    if (part.rows == row).any()
                },
            }
            for name, row in zip(names, first.tolist(), strict=True)
        ]

    def _almost(self, pod: Pod, diagnosis: Diagnosis) -> list[Answer]:
        """Nodes that lack nothing but some of one resource, the smallest lack first.

        A node counts that `FIT` rejects; other plugins that come later have not been asked.
        """
        fits = [rows for status, rows in diagnosis.groups() if status.plugin == FIT]
        if not fits:
            return []
        nodes, rows = diagnosis.nodes, np.concatenate(fits)
        asked = {name: amount for name, amount in pod_requests(pod).amounts.items() if amount}
        lacking = {name: amount - _free(nodes, name)[rows] for name, amount in asked.items()}
        lacking["pods"] = 1 - (nodes.allowed_pods - nodes.pod_count)[rows]
        asked["pods"] = 1
        by_one = np.sum([lack > 0 for lack in lacking.values()], axis=0) == 1
        found: list[tuple[float, Answer]] = []
        for name, lack in lacking.items():
            alone = np.flatnonzero(by_one & (lack > 0))
            least = alone[np.argsort(lack[alone], kind="stable")[:NEAREST]]
            for place in least.tolist():
                row, short = int(rows[place]), int(lack[place])
                answer = {"resource": name, "requested": asked[name], "free": asked[name] - short}
                if self._names:
                    answer["node"] = nodes.names[row] or ""
                found.append((short / asked[name], answer))
        found.sort(key=lambda one: one[0])
        return [answer for _, answer in found[:NEAREST]]


def _free(nodes: NodeTable, resource: str) -> IntArray:
    free: IntArray = nodes.allocatable(resource) - nodes.requested(resource)
    return free


def _names(nodes: NodeTable, rows: IntArray) -> list[str]:
    return [nodes.names[row] or "" for row in rows.tolist()]


def sentence(answer: Mapping[str, Any]) -> str:
    """What a person is told first."""
    pod, state = answer["pod"], answer["state"]
    last, now = answer.get("last", {}), answer.get("now", {})
    if state == "Gone":
        return f"{pod} is gone; its last attempt ended: {last.get('message') or last['reason']}"
    if state == "Running":
        return f"{pod} has the node {answer['node']}."
    if state == "Binding":
        return f"{pod} is being bound to {answer['node']}."
    if state == "WaitsInPermit":
        permit = answer["permit"]
        plugins = ", ".join(permit["plugins"])
        left = f"at most {permit['secondsLeft']:g} s more"
        return f"{pod} waits in Permit for {plugins}, {left}, to go to {answer['node']}."
    if state == "NotOurs":
        return f"{pod} asks for the scheduler {answer['scheduler']}, which is none of this one's."
    if group := answer.get("group"):
        waits = f"{pod} waits with its group {group['name']}"
        return f"{waits}: {group['message'] or 'its turn has not come'}"
    if nominated := answer.get("nominated"):
        where = f" on {nominated['node']}" if "node" in nominated else ""
        if leaving := nominated.get("leaving"):
            return f"{pod} waits for {leaving} Pods to leave{where}."
    if held := now.get("heldBy"):
        return f"{pod} is held back by {held}: {now['message']}"
    return f"{pod} {_next(answer, now)}"


def sentence_of_group(answer: Mapping[str, Any]) -> str:
    """The same of a group."""
    name, now = f"group {answer['group']}", answer.get("now", {})
    if not answer.get("waiting"):
        return f"{name}: {answer.get('placed', 0)} Pods have a node, none waits."
    if planned := now.get("planned"):
        domain = now.get("domain")
        where = f", together in {domain['level']} {domain['value']}" if domain else ""
        return f"{name} waits for its turn: {planned} Pods fit now{where}."
    said = now.get("message") or answer.get("message") or "its turn has not come"
    return f"{name} waits: {said}"


def _next(answer: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    backoff = answer.get("queue", {}).get("backoffSeconds")
    after = f" in {backoff:g} s" if backoff else ""
    if fitting := now.get("fitting"):
        return f"waits for its turn{after}: {fitting} nodes fit now."
    text = f"waits: {now.get('message') or 'nothing is known about nodes'}"
    almost = now.get("almost", ())
    if almost:
        name = almost[0]["resource"]
        amounts = (quantity.shown(name, almost[0][what]) for what in ("requested", "free"))
        asked, free = amounts
        where = almost[0].get("node", "one node")
        text += f" Nearest: {where} has {free} {name} free of the {asked} that it needs."
    return text
