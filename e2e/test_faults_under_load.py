"""Faults in the middle of load: every Pod is bound once, nothing is lost, nothing overcommitted.

Nodes are nearly as full at the end as they can be, so that room that is given away twice shows.
What became of a Pod is read from etcd, which keeps every version of it: no watch can miss one,
whatever happens to the API server. `BAYPLAN_LOAD=full` makes the load large and the faults long.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import NAME, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, wait_until
from e2e.provider.choose import chosen
from e2e.proxy import Proxy
from e2e.test_faults import says_no_traceback

FULL = os.environ.get("BAYPLAN_LOAD") == "full"
NODES, PER_NODE, QPS = (100, 20, 200) if FULL else (20, 12, 60)
PODS = NODES * PER_NODE
HANGS = 35.0 if FULL else 5.0
"""Seconds for which the API server hangs; a request is given up after 30."""
IN_TIME = 180.0
"""Seconds in which every Pod is bound once the fault is over, informers' backoff included."""
BOUND = '"Successfully bound pod to node"'
PACKING = {
    "schedulerName": NAME,
    "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
    "pluginConfig": [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    ],
}
"""Fills one node after the other: room that seems free is taken at once."""
RATE: dict[str, Any] = {"clientConnection": {"qps": QPS, "burst": 1}, "profiles": [PACKING]}
"""Slow enough for a fault to come in the middle."""
LEASE = {
    "leaderElect": True,
    "resourceName": "bayplan",
    "resourceNamespace": SYSTEM,
    "leaseDuration": "24s",
    "renewDeadline": "18s",
    "retryPeriod": "1s",
}


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()


MARK, AFTER_MARK = _text(b"/registry/pods:e2e"), _text(b"/registry/pods;")
"""A key behind those of the Pods, that the API server does not watch."""


class History:
    """What happened to the Pods, from etcd; its API server must store JSON.

    Attributes:
        nodes: by uid, every node that the Pod's spec has named, in order.
        ended: uids of the Pods that are no more.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._etcd = cluster.plane.parts["etcd"].endpoint
        self._pods = _text(f"/registry/pods/{cluster.namespace}/".encode())
        self._uids: dict[str, str] = {}
        self._next = self._revision() + 1
        self.nodes: dict[str, list[str]] = {}
        self.ended: set[str] = set()

    def read(self) -> History:
        """Take in what happened since the last time."""
        until = self._revision()
        if until < self._next:
            return self
        watch = {"key": self._pods, "range_end": AFTER_MARK, "start_revision": self._next}
        with self._post("watch", {"create_request": watch}) as answers:
            # Something after all that is of interest, so that the watch comes to an end.
            self._post("kv/put", {"key": MARK}).close()
            for line in answers:
                result = json.loads(line)["result"]
                assert not result.get("canceled"), result
                for event in result.get("events", ()):
                    revision = int(event["kv"]["mod_revision"])
                    if revision > until:
                        self._next = until + 1
                        return self
                    self._take(event)
        raise AssertionError("etcd ended the watch")

    def compact(self) -> None:
        """Let etcd forget all versions that were read."""
        self.read()
        self._post("kv/compaction", {"revision": self._next - 1, "physical": True}).close()

    def _take(self, event: Any) -> None:
        key = event["kv"]["key"]
        if event.get("type") == "DELETE":
            if key in self._uids:
                self.ended.add(self._uids.pop(key))
            return
        if key == MARK:
            return
        found = json.loads(base64.b64decode(event["kv"]["value"]))
        uid = self._uids[key] = found["metadata"]["uid"]
        nodes = self.nodes.setdefault(uid, [])
        node = found["spec"].get("nodeName", "")
        if node != (nodes[-1] if nodes else ""):
            nodes.append(node)

    def _revision(self) -> int:
        with self._post("kv/range", {"key": _text(b"/")}) as answer:
            return int(json.load(answer)["header"]["revision"])

    def _post(self, path: str, body: Any) -> Any:
        return self._etcd.open(f"/v3/{path}", json.dumps(body).encode(), timeout=30)


class Load:
    """A cluster with nodes that the Pods of one test will nearly fill."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.specs = [
            NodeSpec(f"n{i}", cpu=f"{(PER_NODE + 1) * 100}m", pods=PER_NODE + 1)
            for i in range(NODES)
        ]
        cluster.nodes(*self.specs)
        self.history = History(cluster)
        self.names: list[str] = []
        self.deleted: set[str] = set()
        self.schedulers: list[Bayplan] = []

    @property
    def api_server(self) -> Any:
        return self.cluster.plane.parts["kube-apiserver"]

    def create(self, upto: int = PODS) -> None:
        """Make the Pods, or those that are missing up to that number."""
        missing = range(len(self.names), upto)
        self.names += self.cluster.create(*(pod(f"p{i}", cpu="100m") for i in missing))

    def begin(self, **more: Any) -> Bayplan:
        """A scheduler; before it, the Pods, if they are not there yet."""
        if not self.names:
            self.create()
        return self.start(self.cluster.config(**RATE), **more)

    def start(self, config: Path, **more: Any) -> Bayplan:
        bayplan = self.cluster.bayplan(config, **more)
        self.schedulers.append(bayplan)
        bayplan.start()
        return bayplan

    def bound(self) -> int:
        """How many Pods the schedulers say they have bound."""
        return sum(bayplan.log.read_text().count(BOUND) for bayplan in self.schedulers)

    def reach(self, share: float) -> None:
        """Wait until that share of the Pods is bound."""
        wait_until(lambda: self.bound() >= share * PODS, IN_TIME, f"{share:.0%} bound")

    def fullest(self, count: int) -> list[NodeSpec]:
        """The nodes with the most Pods."""
        pods = Counter(one["spec"].get("nodeName") for one in self.cluster.pods().values())
        return sorted(self.specs, key=lambda spec: -pods[spec.name])[:count]

    @contextmanager
    def kwok_asleep(self) -> Iterator[None]:
        """Meanwhile kwok deletes no Pods: it does so by name, and would hit the new ones."""
        kwok = self.cluster.plane.parts["kwok"]
        kwok.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            kwok.signal(signal.SIGCONT)

    def replace(self, name: str) -> None:
        """Delete the Pod, and make another of the same name."""
        self.deleted.add(self.cluster.pod(name)["metadata"]["uid"])
        self.cluster.delete(name)
        self.cluster.create(pod(name, cpu="100m"))

    def all_is_well(self, *running: Any) -> None:
        """Wait for the end, then look at everything."""
        self.cluster.wait_bound(*self.names, timeout=IN_TIME)
        self.history.read()
        placed = {uid: nodes for uid, nodes in self.history.nodes.items() if nodes}
        assert len(placed.keys() - self.deleted) == PODS
        assert {uid: nodes for uid, nodes in placed.items() if len(nodes) > 1} == {}
        assert self.history.ended == self.deleted
        assert self.cluster.overcommitted() == {}
        for bayplan in running:
            wait_until(bayplan.holds_what_the_api_server_has, IN_TIME, "no difference")
        for bayplan in self.schedulers:
            assert says_no_traceback(bayplan)


pytestmark = pytest.mark.e2e


@pytest.fixture
def load(own: Cluster) -> Load:
    return Load(own)


def bindings_asked_for(cluster: Cluster) -> int:
    """How many bindings bayplan has asked the API server for; see `e2e.audit`."""
    flag = "--audit-log-path="
    path = next(f for f in cluster.plane.api_server_flags if f.startswith(flag))
    with Path(path.removeprefix(flag)).open() as log:
        return sum('"subresource":"binding"' in line for line in log)


def test_an_api_server_that_is_killed_twice(load: Load) -> None:
    bayplan = load.begin()
    for share in (0.2, 0.6):
        load.reach(share)
        load.api_server.kill()
        time.sleep(3)  # long enough for lookups of bindings in doubt to fail
        load.api_server.start()
    load.all_is_well(bayplan)


def test_an_api_server_that_hangs(load: Load) -> None:
    bayplan = load.begin()
    load.reach(0.2)
    load.api_server.signal(signal.SIGSTOP)
    time.sleep(HANGS)
    load.api_server.signal(signal.SIGCONT)
    load.all_is_well(bayplan)


def test_connections_that_break_again_and_again_before_the_answer(
    load: Load, proxy: Proxy, tmp_path: Path
) -> None:
    bayplan = load.begin(kubeconfig=proxy.kubeconfig(tmp_path / "k"))
    for share in (0.1, 0.2, 0.3, 0.4, 0.5):
        load.reach(share)
        proxy.silence()
        time.sleep(0.5)  # what is asked for takes effect, and nobody is told
        proxy.cut()
        proxy.mend()
    proxy.cut()
    with load.kwok_asleep():
        load.replace(load.names[0])
        load.history.compact()
        load.api_server.kill()
        load.api_server.start()
        proxy.mend()
        load.all_is_well(bayplan)
    assert bayplan.lines("version too old, listing again")


def test_bindings_that_nobody_confirmed_keep_their_room_while_the_api_server_is_away(
    load: Load, proxy: Proxy, tmp_path: Path
) -> None:
    load.create()
    at_once = load.cluster.config(**RATE | {"clientConnection": {"qps": 5000, "burst": 1}})
    bayplan = load.start(at_once, kubeconfig=proxy.kubeconfig(tmp_path / "k"))
    load.reach(0.2)
    proxy.silence()
    time.sleep(0.5)
    proxy.cut()
    time.sleep(8)  # what is tried a few times only has been given up by then
    proxy.mend()
    load.all_is_well(bayplan)


@pytest.fixture
def replicas(load: Load) -> tuple[Bayplan, Bayplan]:
    """(leader, the other one), with nine in ten of the Pods; the others come after the fault."""
    config = load.cluster.config(leaderElection=LEASE, **RATE)
    load.create(PODS - PODS // 10)
    leader = load.start(config)
    wait_until(lambda: leader.lines("Leading"), IN_TIME, "one leads")
    return leader, load.start(config)


def test_a_leader_that_is_killed(load: Load, replicas: tuple[Bayplan, Bayplan]) -> None:
    leader, other = replicas
    load.reach(0.3)
    leader.kill()
    load.create()
    load.all_is_well(other)
    assert other.lines("Leading")


def test_a_leader_that_sleeps_past_its_lease_binds_nothing_when_it_wakes(
    load: Load, replicas: tuple[Bayplan, Bayplan]
) -> None:
    leader, other = replicas
    load.reach(0.3)
    leader.signal(signal.SIGSTOP)
    load.create()
    wait_until(lambda: other.lines("Leading"), IN_TIME, "the other one leads")
    load.all_is_well(other)
    asked = bindings_asked_for(load.cluster)
    leader.signal(signal.SIGCONT)
    assert leader.wait(IN_TIME) == 1
    assert bindings_asked_for(load.cluster) == asked
    assert leader.lines("Leader election lost, ending at once")
    load.all_is_well(other)


def test_nodes_and_pods_that_are_made_anew_under_the_same_name(load: Load) -> None:
    bayplan = load.begin()
    load.reach(0.2)
    gone = load.fullest(10)
    for spec in gone:
        load.cluster.api.delete_node(spec.name, _preload_content=False)
    load.cluster.nodes(*gone)
    with load.kwok_asleep():
        for name in load.names[::20]:
            load.replace(name)
        load.all_is_well(bayplan)


def test_an_api_server_that_takes_few_requests_at_a_time(
    new_cluster: Callable[..., Cluster],
) -> None:
    if not chosen().owns_parts:
        pytest.skip("takes an API server of its own")
    flags = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=5")
    with ExitStack() as stack:
        load = Load(new_cluster(stack, "--storage-media-type=application/json", *flags))
        load.create()
        bayplan = load.start(load.cluster.config())
        stack.callback(bayplan.kill)
        load.all_is_well(bayplan)
        assert b'code="429"' in load.api_server.endpoint.get("/metrics")


@pytest.mark.parametrize("qps", [QPS, 10], ids=["time for all bindings", "too little time"])
def test_a_scheduler_that_is_told_to_end(load: Load, qps: int) -> None:
    load.create()
    first = load.start(load.cluster.config(**RATE | {"clientConnection": {"qps": qps, "burst": 1}}))
    load.reach(0.1)
    first.signal(signal.SIGTERM)
    assert first.wait(25) == 0  # of 30 seconds that Kubernetes gives
    said = {line["pod"].split("/")[1] for line in first.lines("Successfully bound pod to node")}
    assert {
        name for name, one in load.cluster.pods().items() if one["spec"].get("nodeName")
    } == said
    load.all_is_well(load.begin())
