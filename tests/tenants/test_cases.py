"""Tenants, case by case: what runs, what waits, and who is where when nobody moves any more.

The cases are in ``cases/<project>.yaml``: each is about one thing that the tests of that project
are about, too, with sizes and names of its own. A case has

    name, source    the id of the test, and where the other project tests the like
    nodes           by name what they have; a Pod can be told to go to some of them only
    queues          by name their spec; each has the Pods of the namespace of its name
    priorities      by name their value, for PriorityClasses
    budgets         by name how many more Pods of it may be evicted
    groups          by name how many Pods of it have to run at once
    running         Pods that run when it begins, the one that started first comes first
    waiting         Pods that wait, the oldest one first
    then            what changes after that, once nobody moves any more: more of all of these, and
                    the Pods that ``ended``, the nodes that are ``lost``; ``after`` so many seconds
    args            of FairShare
    seconds         how long it is watched beyond that, for what only time brings about
    expect          the end; or a list of ends, any of which is right
    why             the rule by which it ends so
    peer            what the other project expects, where that is something else

A Pod is ``{name: a, queue: a, cpu: 1}`` and may have ``times`` (there are a-0, a-1, ...), ``node``,
``only`` (nodes), ``priority``, ``budget``, ``group``, ``user``, ``gated: true`` and
``preempts: false``. An end is who is ``placed`` and who is ``waiting`` (names, or numbers by queue,
of all Pods), and who was ``evicted`` on the way (nobody where it does not say), as often as that
happened.

A case is played to the end: what is placed is bound, and who is evicted, or was on a node that is
lost, comes again as a new Pod of the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.core_harness import Cluster
from tests.groups import pod_group
from tests.queues import queue, queues_profile

from bayplan.api.kinds import POD, POD_DISRUPTION_BUDGET
from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.inbox.messages import Changed
from bayplan.testing import Json, PodBuilder, fields, make_node, make_object, make_pod, requirement

CASES = sorted(Path(__file__).parent.glob("cases/*.yaml"))
LONG = {"gpu": "nvidia.com/gpu"}
"""Names of resources that are shorter in the cases."""
BACKOFF = 11
QUIET = 4
"""After so many backoffs in a row in which nobody moved, nobody will."""
STEP = {"nodes", "queues", "budgets", "groups", "running", "waiting", "ended", "lost", "after"}
CASE = STEP | {"name", "source", "priorities", "args", "then", "seconds"}
CASE |= {"expect", "why", "peer"}
POD_KEYS = {"name", "queue", "cpu", "memory", "gpu", "times", "node", "only", "priority"} | {
    "budget",
    "group",
    "gated",
    "preempts",
    "user",
}
MOST = 60
"""Backoffs, or evictions, after which a case is taken to have no end."""


class Play:
    """A cluster in which a case is played.

    Attributes:
        cluster: whose scheduler keeps to Queues and to groups.
        pods: what the case says of each Pod, by name.
        evicted: who was evicted, in order.
    """

    def __init__(self, case: Json) -> None:
        profile = queues_profile("Coscheduling", **case.get("args", {}))
        self.cluster = Cluster(profiles=[profile])
        self.cluster.writer.on_bound = self.cluster._show_bound
        self.cluster.writer.on_deleted = self._evict
        self.pods: dict[str, Json] = {}
        self.evicted: list[str] = []
        self._priorities: dict[str, int] = case.get("priorities", {})
        self._times = count()

    def change(self, step: Json) -> None:
        """All of this is there now, or gone."""
        self.cluster.wait(step.get("after", 0))
        for name, amounts in step.get("nodes", {}).items():
            self.cluster.add(make_node(name).capacity({"pods": 110, **_long(amounts)}))
        for number, (name, spec) in enumerate(step.get("queues", {}).items()):
            fields_of = {key: _long(value) for key, value in spec.items()}
            self.cluster.add(queue(name, name, created=number, **fields_of))
        for name, allowed in step.get("budgets", {}).items():
            for namespace in {pod["queue"] for pod in _each(step) if pod.get("budget") == name}:
                budget = make_object(POD_DISRUPTION_BUDGET, name).namespace(namespace)
                budget.spec(selector={"matchLabels": {"budget": name}})
                self.cluster.add(budget.status(disruptionsAllowed=allowed))
        for pod in _each(step):
            self.pods[pod["name"]] = pod
        for name, minimum in step.get("groups", {}).items():
            namespace = next(p["queue"] for p in self.pods.values() if p.get("group") == name)
            self.cluster.add(pod_group(name, minMember=minimum).namespace(namespace))
        self.cluster.add(*(self._pod(pod) for pod in _each(step)))
        for name in step.get("ended", ()):
            self.cluster.remove(self._pod(self.pods[name]).uid(self._shown(name).uid))
            del self.pods[name]
        for node in step.get("lost", ()):
            self.cluster.remove(make_node(node))
            for name in [name for name in self.pods if self._shown(name).node_name == node]:
                self._come_again(self._shown(name))

    def settle(self) -> None:
        """Until nobody moves any more."""
        writer, quiet = self.cluster.writer, 0
        for _ in range(MOST):
            moves = len(writer.bound) + len(writer.deleted)
            self.cluster.run()
            self.cluster.wait(BACKOFF)
            quiet = quiet + 1 if moves == len(writer.bound) + len(writer.deleted) else 0
            if quiet == QUIET:
                return
        pytest.fail(f"it does not end: {self.evicted}")

    def end(self) -> dict[str, list[str]]:
        """Names of those who are placed, who wait, and who were evicted."""
        placed = [name for name in self.pods if self._shown(name).node_name]
        waiting = [name for name in self.pods if name not in placed]
        return {"placed": placed, "waiting": waiting, "evicted": self.evicted}

    def is_as_expected(self, expected: Json) -> bool:
        """Whether it ended so."""
        return all(
            self._agrees(names, expected[part])
            for part, names in self.end().items()
            if part in expected
        )

    def _agrees(self, names: list[str], expected: list[str] | dict[str, int]) -> bool:
        if isinstance(expected, list):
            return sorted(names) == sorted(expected)
        return Counter(self.pods[name].get("queue", "") for name in names) == Counter(expected)

    def _evict(self, pod: Pod) -> None:
        self.evicted.append(pod.name)
        if len(self.evicted) == MOST:
            pytest.fail(f"it does not end: {self.evicted}")
        self._come_again(pod)

    def _come_again(self, pod: Pod) -> None:
        self.cluster._show_deleted(pod)
        again = self._pod({**self.pods[pod.name], "node": ""})
        again.spec(schedulerName=pod.spec.scheduler_name)
        self.cluster.inbox.post(Changed(POD, again.new_version().obj()))

    def _shown(self, name: str) -> Pod:
        namespace = self.pods[name].get("queue", "default")
        return self.cluster.world.handlers.pods[f"{namespace}/{name}"]

    def _pod(self, case: Json) -> PodBuilder:
        now = datetime.fromtimestamp(next(self._times), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pod = make_pod(case["name"]).namespace(case.get("queue", "default")).created(now)
        amounts = {name: case[name] for name in ("cpu", "memory", "gpu") if name in case}
        pod.req(_long(amounts))
        if case.get("node"):
            pod.node(case["node"]).start_time(now).phase("Running")
        if "priority" in case:
            name = case["priority"]
            pod.spec(priority=self._priorities[name], priorityClassName=name)
        if "only" in case:
            pod.node_affinity(fields(requirement("metadata.name", "In", *case["only"])))
        if "budget" in case:
            pod.label("budget", case["budget"])
        if "group" in case:
            pod.label(POD_GROUP_LABEL, case["group"])
        if "user" in case:
            pod.label("bayplan.dev/user", case["user"])
        if case.get("gated"):
            pod.gate("case/gate")
        if not case.get("preempts", True):
            pod.spec(preemptionPolicy="Never")
        return pod


def _each(step: Json) -> Iterator[Json]:
    """The Pods of a step, each by itself."""
    for pod in (*step.get("running", ()), *step.get("waiting", ())):
        if "times" in pod:
            yield from ({**pod, "name": f"{pod['name']}-{i}"} for i in range(pod["times"]))
        else:
            yield pod


def _long(value: Any) -> Any:
    return {LONG.get(k, k): v for k, v in value.items()} if isinstance(value, dict) else value


def _ends(case: Json) -> list[Json]:
    """The ends that are right."""
    expected = case["expect"]
    return [{"evicted": [], **e} for e in (expected if isinstance(expected, list) else [expected])]


def read(file: Path) -> list[Json]:
    """The cases of a file."""
    cases: list[Json] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return cases


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_cases_are_well_formed(file: Path) -> None:
    cases = read(file)
    assert len({case["name"] for case in cases}) == len(cases)
    for case in cases:
        steps, ends = [case, *case.get("then", ())], _ends(case)
        assert set(case) <= CASE
        assert {"source", "why", "nodes", "queues"} <= set(case)
        assert all(set(step) <= STEP for step in steps[1:])
        assert all(set(pod) <= POD_KEYS for step in steps for pod in _each(step))
        assert all({"placed", "waiting"} & set(end) for end in ends)
        assert all(set(end) <= {"placed", "waiting", "evicted"} for end in ends)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{file.stem}-{case['name']}") for file in CASES for case in read(file)],
)
def test_case(case: Json) -> None:
    play = Play(case)
    play.change(case)
    play.settle()
    for step in case.get("then", ()):
        play.change(step)
        play.settle()
    if "seconds" in case:
        play.cluster.wait(case["seconds"])
        play.settle()
    assert any(map(play.is_as_expected, _ends(case))), f"{play.end()}; {case['why']}"
