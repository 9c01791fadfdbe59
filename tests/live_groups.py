"""Groups of all sources on a live cluster, and who could be placed there by anybody's count.

Pods are single, or members of a group of `GROUPS`. They ask for CPU alone, those of one group for
the same amount, so that "could it be placed?" has an exact answer that needs no search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.groups import GATE, basic, gang, gang_members, groups_profile, members, pod_group
from tests.live_cluster import ApiServer, LiveCluster, cpu_of
from tests.owners import make_job, pods_of_job

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.testing import Json, NodeBuilder, PodBuilder, make_node, make_pod


class Source(msgspec.Struct, frozen=True):
    """Where a group comes from, and what its Pods ask for.

    Attributes:
        kind: `LABEL`, `KUBERNETES` or `INFERRED`.
        cpu: of each Pod.
        priority: of each Pod.
        goes_as_a_whole: whether nobody may take it below its minimum. kube-scheduler takes single
            Pods of a PodGroup, unless its disruption mode is All.
    """

    kind: str
    cpu: int
    priority: int
    goes_as_a_whole: bool = True


LABEL, KUBERNETES, INFERRED = "label", "kubernetes", "inferred"
GROUPS = {
    "la": Source(LABEL, 1, 0),
    "lb": Source(LABEL, 2, 1),
    "ka": Source(KUBERNETES, 1, 0, goes_as_a_whole=False),
    "kb": Source(KUBERNETES, 2, 1),
    "ja": Source(INFERRED, 1, 0),
}
CPUS_OF_A_NODE = 4


def configuration(*, labels: bool = True, inferred: bool = True) -> Json:
    """A configuration with groups of these sources, and PodGroups of Kubernetes."""
    owners = ["Job"] if inferred else []
    profile = groups_profile(inferGroups=owners) if labels else {"schedulerName": "bayplan"}
    return {"profiles": [profile]}


CONFIGURATIONS = {
    "all": configuration(),
    "no inferred groups": configuration(inferred=False),
    "no groups but those of Kubernetes": configuration(labels=False),
}


class GroupsCluster(LiveCluster):
    """A live cluster with `GROUPS`.

    Attributes:
        configuration: which of `CONFIGURATIONS` is in force.
        nodes: by name.
        minimums: by name, what the objects of groups say; those without an object are not in it.
    """

    def __init__(self) -> None:
        super().__init__(ApiServer(CPUS_OF_A_NODE), GATE, **CONFIGURATIONS["all"])
        self.configuration = "all"
        self.nodes: dict[str, NodeBuilder] = {}
        self.minimums: dict[str, int] = {}
        self._jobs = {name: make_job(name) for name in GROUPS if GROUPS[name].kind == INFERRED}
        self._numbers = count()

    # What users do

    def come(
        self,
        group: str,
        *,
        cpu: int = 1,
        priority: int = 0,
        gated: bool = False,
        odd: bool = False,
    ) -> str:
        """A Pod, of ``group`` unless that is "": then it has this size and priority.

        An ``odd`` one has another priority than its group.
        """
        number = next(self._numbers)
        source = GROUPS.get(group, Source("", cpu, priority))
        pod = self._pod(group, source, number).priority(source.priority + odd)
        if gated:
            pod.gate("later")
        self.create(pod)
        return pod.obj().name

    def _pod(self, group: str, source: Source, number: int) -> PodBuilder:
        cpu = str(source.cpu)
        if source.kind == LABEL:
            return members(group, 1, cpu, first=number)[0]
        if source.kind == KUBERNETES:
            return gang_members(group, 1, cpu, first=number)[0]
        if source.kind == INFERRED:
            return pods_of_job(self._jobs[group], range(number, number + 1), cpu)[0]
        return make_pod(f"p-{number}").req(cpu=cpu)

    def ungate(self, name: str) -> None:
        """Somebody takes the Pod's scheduling gates away."""
        self.api.update(self.api.pods[name].spec(schedulingGates=[]))

    def set_group(self, name: str, minimum: int) -> None:
        """The object of the group is new, or has another minimum; 0 of Kubernetes': basic.

        The policy of a PodGroup of Kubernetes does not change: with another one it is made anew,
        as its hints, like those of kube-scheduler, look at the minimum of gangs alone.
        """
        previous = self.minimums.get(name, minimum)
        if GROUPS[name].kind == "kubernetes" and (previous == 0) != (minimum == 0):
            self.drop_group(name)
        self.minimums[name] = minimum
        match GROUPS[name].kind:
            case "label":
                self.cluster.add(pod_group(name, minMember=minimum))
            case "kubernetes":
                spec: Json = {"priority": GROUPS[name].priority}
                if GROUPS[name].goes_as_a_whole:
                    spec["disruptionMode"] = {"all": {}}
                group = gang(name, minimum, **spec) if minimum else basic(name, **spec)
                self.cluster.add(group)
            case _:
                self.cluster.add(self._jobs[name].spec(parallelism=minimum, completions=minimum))

    def drop_group(self, name: str) -> None:
        """The object of the group is gone."""
        del self.minimums[name]
        match GROUPS[name].kind:
            case "label":
                self.cluster.remove(pod_group(name))
            case "kubernetes":
                self.cluster.remove(basic(name))
            case _:
                self.cluster.remove(self._jobs[name])

    def set_node(self, name: str, *, cordoned: bool = False) -> None:
        """The node is there, and takes Pods or does not."""
        node = make_node(name).uid(name).capacity(cpu=str(CPUS_OF_A_NODE), memory="64Gi", pods=110)
        self.nodes[name] = node.spec(unschedulable=cordoned)
        self.cluster.add(self.nodes[name])

    def drop_node(self, name: str) -> None:
        """The node is gone, and its Pods with it."""
        self.cluster.remove(self.nodes.pop(name))
        for pod in list(self.api.pods.values()):
            if pod.obj().node_name == name:
                self.api.end(pod.obj().name)

    def reload(self, name: str) -> None:
        """This of `CONFIGURATIONS` is in force from now on."""
        self.configuration = name
        self.cluster.reload(**CONFIGURATIONS[name])

    # Who waits although there is room; exact, by counting

    def group_of(self, pod: Pod) -> str:
        """The group that the Pod has to be placed with; "" for none."""
        if pod.pod_group:
            return pod.pod_group
        if self.configuration == "no groups but those of Kubernetes":
            return ""
        label = pod.labels.get(POD_GROUP_LABEL, "")
        if label or self.configuration == "no inferred groups":
            return label
        return pod.labels.get("job-name", "")

    def could_go(self) -> Iterator[str]:
        """Pods and groups that wait although they have room; ask when all is settled.

        A single Pod has room, too, where enough single Pods of lower priority are.
        """
        pods = [pod.obj() for pod in self.api.pods.values()]
        running = [pod for pod in pods if pod.node_name]
        free = {name: CPUS_OF_A_NODE for name, node in self.nodes.items() if self._takes_pods(node)}
        for pod in running:
            if pod.node_name in free:
                free[pod.node_name] -= cpu_of(pod)
        begun = Counter(self.group_of(pod) for pod in running)
        groups: dict[str, list[Pod]] = {}
        for pod in pods:
            group = self.group_of(pod)
            if pod.node_name:
                continue
            if group and (GROUPS[group].kind == KUBERNETES or not begun[group]):
                groups.setdefault(group, []).append(pod)
            elif not pod.spec.scheduling_gates and self._single_could_go(pod, running, free):
                yield pod.name
        for group, waiting in groups.items():
            if self._group_could_go(group, waiting, begun[group], free):
                yield f"group {group}"

    def _single_could_go(self, pod: Pod, running: list[Pod], free: dict[str, int]) -> bool:
        yielding = Counter(free)
        for other in running:
            if not self.group_of(other) and other.priority < pod.priority:
                yielding[other.node_name] += cpu_of(other)
        return any(yielding[node] >= cpu_of(pod) for node in free)

    def _takes_pods(self, node: NodeBuilder) -> bool:
        return not node.json["spec"].get("unschedulable")

    def _group_could_go(
        self, group: str, members: list[Pod], running: int, free: dict[str, int]
    ) -> bool:
        source, minimum = GROUPS[group], self.minimums.get(group)
        gated = [pod for pod in members if pod.spec.scheduling_gates]
        if minimum is None or any(pod.priority != source.priority for pod in members):
            return False
        if gated and source.kind == KUBERNETES:
            return False
        slots = sum(room // source.cpu for room in free.values())
        there = len(members) - len(gated)
        needed = max(minimum - running, 1)
        return needed <= there and needed <= slots


class LiveMachine(RuleBasedStateMachine):
    """What happens by itself on a `GroupsCluster`, and what must hold whoever is there."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupsCluster()
        self.api = self.world.api

    @precondition(lambda self: self.api.requests)
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        self.api.store(data.draw(st.integers(0, len(self.api.requests) - 1)))

    @precondition(lambda self: self.api.answers)
    @rule()
    def answer(self) -> None:
        self.world.answer()

    @precondition(lambda self: self.api.watch)
    @rule(changes=st.integers(1, 9))
    def show(self, changes: int) -> None:
        self.world.show(changes)

    @rule()
    def all_arrives(self) -> None:
        self.world.arrive()

    @precondition(lambda self: self.api.terminating)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.api.end(data.draw(st.sampled_from(self.api.terminating)))

    @rule(seconds=st.sampled_from([0.5, 1.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule()
    def all_settles(self) -> None:
        self.world.settle()
        ready = list(self.world.could_go())
        assert not ready, ready
        assert self.world.cluster.is_at_rest()

    def teardown(self) -> None:
        self.all_settles()

    @invariant()
    def nobody_is_bound_twice(self) -> None:
        assert all(number == 1 for number in self.api.bindings.values())
