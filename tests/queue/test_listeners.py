"""Who listens to the queue is told of each Pod that waits, once, and of no group."""

from __future__ import annotations

from tests.groups import group_cluster, members, nodes, pod_group, racks

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.testing import make_pod


class Listener:
    """Keeps the names of Pods that wait, and how many uids have left."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.left = 0

    def pod_waits(self, pod: Pod) -> None:
        """See `QueueListener`."""
        self.waiting.append(pod.name)

    def pod_left(self, uid: str) -> None:
        """See `QueueListener`."""
        self.left += 1


def test_a_group_that_is_rejected_is_no_pod_that_waits() -> None:
    cluster, listener = group_cluster(), Listener()
    cluster.queue.listen(listener)
    cluster.add(pod_group("g", minMember=2))
    apart = {"matchLabels": {POD_GROUP_LABEL: "g"}}
    pods = [pod.pod_anti_affinity("rack", apart) for pod in members("g", 2)]
    cluster.add(*racks(2), *pods, make_pod("alone").req(cpu="3"))
    for _ in range(3):
        cluster.run()
        cluster.wait(11)
    assert cluster.bound == []
    assert sorted(listener.waiting) == ["alone", "g-0", "g-1"]
    assert listener.left == 0


def test_a_pod_that_changes_waits_as_it_is_now() -> None:
    cluster, listener = group_cluster(), Listener()
    cluster.queue.listen(listener)
    pod = make_pod("alone").req(cpu="2")
    cluster.add(*nodes(1, cpu="1"), pod)
    cluster.run()
    cluster.add(pod.label("a", "b"))
    assert listener.waiting == ["alone", "alone"]
    cluster.remove(pod)
    assert listener.left == 1
