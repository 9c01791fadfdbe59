"""Adding or removing many Pods at once does what doing so one by one does."""

from __future__ import annotations

from random import Random

import pytest
from tests.builders import make_node, make_pod

from bayplan.api.pod import Pod
from bayplan.cache.node_table import NodeTable


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, str]] = []

    def pod_added(self, row: int, pod: Pod) -> None:
        self.heard.append(("added", row, pod.uid))

    def pod_removed(self, row: int, pod: Pod) -> None:
        self.heard.append(("removed", row, pod.uid))

    def node_changed(self, row: int) -> None:
        pass


def pod_of(random: Random, number: int) -> Pod:
    pod = make_pod().uid(f"uid-{number}").req(cpu=random.choice(("1", "2")))
    if random.random() < 0.3:
        pod.host_port(random.choice((80, 81)))
    if random.random() < 0.3:
        pod.req({"nvidia.com/gpu": 1})
    if random.random() < 0.2:
        resized = [{"name": "c1", "resources": {"requests": {"cpu": "3"}}}]
        pod.status(containerStatuses=resized)
    return pod.obj()


@pytest.mark.parametrize("seed", range(5))
def test_many_pods_count_as_they_do_one_by_one(seed: int) -> None:
    random = Random(seed)
    tables = NodeTable(), NodeTable()
    listeners = Listener(), Listener()
    for table, listener in zip(tables, listeners, strict=True):
        for name in ("a", "b", "c"):
            table.set_node(make_node(name).capacity(cpu="8").obj())
        table.listen(listener)
    many, single = tables
    pods = [pod_of(random, i) for i in range(20)]
    rows = [random.randrange(3) for _ in pods]
    positions = [table.pod_journal.position for table in tables]
    many.add_pods(rows, pods)
    for row, pod in zip(rows, pods, strict=True):
        single.add_pod(row, pod)
    many.remove_pods(rows[5:], pods[5:])
    for row, pod in zip(rows[5:], pods[5:], strict=True):
        single.remove_pod(row, pod)
    assert many.recount() == {} == single.recount()
    assert many.pods == single.pods
    assert many.host_ports == single.host_ports
    assert listeners[0].heard == listeners[1].heard
    moved = [t.pod_journal.since(p) for t, p in zip(tables, positions, strict=True)]
    assert moved[0] == moved[1]


def test_no_pods_are_nothing() -> None:
    table = NodeTable(2)
    table.add_pods([], [])
    table.remove_pods([], [])
    assert table.recount() == {}
