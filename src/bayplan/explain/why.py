"""Why: what the running scheduler says of one Pod or group, from its own state and plugins.

An answer is plain data in the format ``view.bayplan.dev/v1alpha1`` (docs/why.md): first a sentence,
then what came of the last attempt, where the Pod is in the queue, its group and tenant, and the
decision as it would be made now, which is made and dropped. Amounts are in the units of
`bayplan.api.quantity.of`: milli-CPU, bytes, counts. Empty keys are left out.

Whoever may not see nodes gets counts in place of the names of nodes, and of Pods in other
namespaces. All of it runs on the scheduling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from bayplan.api.pod import Pod
from bayplan.cache.requests import pod_requests
from bayplan.decide.deciding import deciding
from bayplan.engine.faults import PLUGIN_TIMEOUT
from bayplan.engine.ties import Choice
from bayplan.explain.autoscaler import autoscaler, condition_reason
from bayplan.explain.explanation import eviction, explain, gate_status
from bayplan.explain.group import GroupExplainer
from bayplan.explain.judgement import NEAREST, changed, judgement, of_verdict
from bayplan.explain.names import Names
from bayplan.explain.sentences import sentence, sentence_of_group
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
        whole: whether the decision as of now is wanted with each node's answer, as the ``verdict``
            that `bayplan.explain.explanation` makes, in place of ``now``. Only with ``names``.
    """

    def __init__(
        self,
        world: World,
        profiles: Profiles,
        placers: Placers,
        records: Records,
        *,
        names: bool,
        whole: bool = False,
    ) -> None:
        self._world, self._profiles, self._placers = world, profiles, placers
        self._records, self._names, self._whole = records, names, whole
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
        answer["changed"] = changed(answer)
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
            if self._whole:
                answer["verdict"] = verdict
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
        last = {
            "time": _stamp(datetime.fromtimestamp(record.at, UTC)),
            "reason": record.reason,
            "message": cut_note(record.message),
        }
        if record.node and (self._names or record.reason == "Scheduled"):
            last["node"] = record.node
        return {key: value for key, value in last.items() if value} | _chosen(record.choice)

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
        elif pod.node_name and pod.spec.scheduler_name in self._profiles:
            with self._world.cache.trial():
                self._world.cache.remove(pod.uid)
                # Reserve is not asked: the Pod holds what it reserved.
                answer |= self._judged(pod.off_node(), commits=False)
        return answer

    # A Pod without a node

    def _pending(self, pod: Pod) -> Answer:
        answer: Answer = {"state": "Pending", "tenant": self._tenant(pod)}
        queued = self._world.queue.get(pod.uid)
        if queued is not None:
            answer["queue"] = self._queue(queued)
        entry = self._world.queue.groups.entry_of_pod(pod)
        if entry is not None and pod.uid in entry.members:
            answer["group"] = {"name": entry.key} | self._group(entry)
        nominated = self._world.nominator.nominated_node(pod.uid)
        if nominated:
            answer["nominated"] = self._nominated(pod, nominated)
        if queued is not None and queued.gating_plugin == PLUGIN_TIMEOUT:
            # The same plugin would be asked, and stop everything once more.
            answer["now"] = {"heldBy": PLUGIN_TIMEOUT, "message": queued.gating_reason}
            return answer
        answer |= self._judged(pod, in_group="group" in answer)
        framework = self._profiles[pod.spec.scheduler_name]
        if "fitting" not in answer.get("now", {}):
            record = self._records.of(pod.uid)
            reason = condition_reason(pod) or (record.reason if record is not None else "")
            answer["autoscaler"] = autoscaler(
                self._world, framework, pod, reason, names=self._names
            )
        if entry is not None and "group" in answer and len(entry.members) <= MOST_PLANNED:
            planned = self._groups.of_pod(pod)
            if self._whole:
                answer["verdict"]["group"] = planned
            else:
                seen = ("node", "message") if self._names else ("message",)
                now = {part: planned[part] for part in seen if part in planned}
                answer["now"] = now | answer.get("now", {})
        return answer

    def _judged(self, pod: Pod, *, in_group: bool = False, commits: bool = True) -> Answer:
        """The decision as of now; nothing of it is kept."""
        framework = self._profiles[pod.spec.scheduler_name]
        if self._whole:
            verdict = explain(framework, self._placers, pod, details=True, commits=commits)
            return {"verdict": verdict, "now": of_verdict(verdict)}
        gate = gate_status(framework, pod)
        if gate is not None:
            return {"now": {"heldBy": gate.plugin, "message": gate.message}}
        if pod.deleted is not None or in_group:
            return {}
        with deciding(self._placers, framework, pod, detailed=True, commits=commits) as decision:
            now = judgement(framework, pod, decision, names=self._names)
            rejection = decision.rejection
            if rejection is not None and rejection.nominated and rejection.post_filter is not None:
                victims = eviction(rejection.post_filter).get("victims", ())
                now["eviction"] = self._pods("victims", victims, pod.namespace)
        return {"now": now}

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
            answer |= self._leaving(group.uid, entry.pod.namespace)
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
        return answer | self._leaving(pod.uid, pod.namespace)

    def _leaving(self, preemptor: str, namespace: str) -> Answer:
        """Who leaves for a Pod or group, by its uid, and since when."""
        running = self._world.evictions.eviction(preemptor)
        if running is None:
            return {}
        answer = self._pods("leaving", [victim.key for victim in running.leaving], namespace)
        since = running.since
        return answer | ({"leavingSince": _stamp(since)} if answer and since is not None else {})

    def _pods(self, title: str, keys: Iterable[str], namespace: str) -> Answer:
        """Pods by name, as far as these may be named, and how many they are."""
        every = sorted(keys)
        named = [key for key in every if self._names or key.startswith(f"{namespace}/")]
        return {title: len(every), f"{title}Pods": named[:NEAREST]} if every else {}


def _chosen(choice: Choice) -> Answer:
    if not choice.feasible:
        return {}
    chosen: Answer = {"evaluated": choice.evaluated, "fitting": choice.feasible}
    if choice.total is not None and choice.equal:
        chosen |= {"total": int(choice.total), "equal": choice.equal}
    return {"chosen": chosen}


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
