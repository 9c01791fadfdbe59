"""What the parts count appears on /metrics, every family that the documents list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families
from tests.client.fault_server import FaultServer
from tests.core_harness import Cluster, profile
from tests.groups import group_cluster, members, nodes, pod_group
from tests.queues import pod, queue, queue_cluster
from tests.scripted import scripted

from bayplan.api.kinds import NODE
from bayplan.app.exposition import (
    expose_blind_pods,
    expose_client,
    expose_election,
    expose_features,
    expose_load,
    expose_reloads,
    expose_survivors,
    expose_world,
)
from bayplan.app.load import LoadFeeds
from bayplan.app.reload import Reloader
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.event_recorder import EventRecorder
from bayplan.client.http import Http
from bayplan.client.leader import LeaderElector, LeaseLock
from bayplan.config import FeatureGates
from bayplan.framework import WAIT, Plugin, Status
from bayplan.informers.factory import Informers
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.polled import POLLED
from bayplan.telemetry.pulse import Pulse
from bayplan.testing import make_node, make_pod

Samples = dict[tuple[str, ...], float]


def samples(metrics: Metrics) -> Samples:
    """(name, label values...) and value of every sample."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


class Later(Plugin):
    def permit(self, state: Any, pod: Any, node_name: Any) -> Any:
        return WAIT, 60


def test_every_polled_family_is_exposed_by_a_process_that_elects(server: FaultServer) -> None:
    metrics, cluster = Metrics(), Cluster()
    dispatcher = Dispatcher(server.connection())
    events = EventRecorder(dispatcher, "bayplan")
    informers = Informers(server.connection(), lambda _: None)
    informers.watch([NODE])
    elector = LeaderElector(
        Http(server.connection()),
        LeaseLock("bayplan", "kube-system"),
        "me",
        on_started=lambda: None,
        on_stopped=lambda: None,
    )
    elector._lease = {"spec": {"holderIdentity": "somebody"}}
    expose_features(metrics, FeatureGates())
    expose_world(metrics, cluster.core.world, Pulse())
    expose_blind_pods(metrics, cluster.core)
    expose_survivors(metrics, cluster.core)
    expose_client(metrics, dispatcher, events, informers)
    expose_election(metrics, elector)
    expose_reloads(metrics, cast("Reloader", SimpleNamespace(counts={"success": 2}, failing=True)))
    table = cluster.core.world.cache.nodes
    expose_load(metrics, LoadFeeds(Http(server.connection()), cluster.inbox, table))
    informers.stop()
    text = metrics.render().decode()
    of_shadows = "bayplan_shadow_"
    families = [family for family in POLLED if not family.name.startswith(of_shadows)]
    assert {f"# TYPE {family.name} {family.kind}" for family in families} <= set(text.splitlines())
    seen = samples(metrics)
    assert seen["leader_election_master_status", "bayplan"] == 0
    assert seen["bayplan_leader_info", "somebody", "bayplan"] == 1
    assert seen["bayplan_informer_synced", "Node"] == 0
    assert (seen["bayplan_reloads_total", "success"], seen["bayplan_reload_failing",]) == (2, 1)
    dispatcher.close(0)


def test_dropped_events_are_shown(server: FaultServer) -> None:
    metrics = Metrics()
    dispatcher = Dispatcher(server.connection())
    events = EventRecorder(dispatcher, "bayplan", max_waiting=1)
    expose_client(metrics, dispatcher, events, Informers(server.connection(), lambda _: None))
    for _ in range(3):
        events.event(make_pod("p").obj(), None, "Normal", "R", "A", "note")
    assert samples(metrics)["bayplan_events_total", "dropped"] == 2
    dispatcher.close(0)


def test_pods_that_wait_in_permit_are_shown_by_plugin() -> None:
    cluster = Cluster(Later, profiles=[profile("Later", bare=True)])
    expose_world(cluster.metrics, cluster.core.world, Pulse())
    cluster.add(make_node("n").capacity(cpu="1", pods=9), make_pod("p").uid("p"))
    cluster.run()
    assert samples(cluster.metrics)["bayplan_permit_waiting_pods", "Later"] == 1


def test_pods_that_a_pre_enqueue_plugin_holds_are_shown_by_plugin() -> None:
    hold = scripted("Hold", pre_enqueue=Status.unschedulable("not today"))
    cluster = Cluster(hold, bare=True)
    expose_world(cluster.metrics, cluster.core.world, Pulse())
    pod = make_pod("p")
    cluster.add(pod, make_pod("q"))
    assert samples(cluster.metrics)["bayplan_gated_pods", "Hold"] == 2
    assert samples(cluster.metrics)["scheduler_queued_entities", "gated", "pod"] == 2
    cluster.plugin(hold).script = {}
    cluster.add(pod.label("a", "b"))
    assert samples(cluster.metrics)["bayplan_gated_pods", "Hold"] == 1


def test_waiting_groups_are_shown_by_place_and_attempts_by_reason() -> None:
    cluster = group_cluster()
    expose_world(cluster.metrics, cluster.core.world, Pulse())
    cluster.add(*nodes(1), *members("few", 2), *members("many", 9))
    cluster.add(pod_group("few", minMember=3), pod_group("many", minMember=9))
    cluster.run()
    now = samples(cluster.metrics)
    assert now["bayplan_waiting_groups", "gated"] == 1
    assert now["bayplan_waiting_groups", "unschedulable"] == 1
    attempts = now["bayplan_group_attempts_total", "bayplan", "NoRoom", "unschedulable"]
    assert attempts == 1


def test_what_queues_have_is_shown_and_wrong_sums_are_found_and_mended() -> None:
    cluster = queue_cluster()
    expose_world(cluster.metrics, cluster.core.world, Pulse())
    cluster.add(make_node("n").capacity(cpu="8", memory="8Gi", pods=9))
    cluster.add(queue("a", "x", guaranteed={"cpu": 2}, limit={"cpu": 3}))
    cluster.add(pod("p", "x", "2"), pod("q", "x", "2"))
    cluster.run()
    cluster.world.queues.refresh_shares()
    now = samples(cluster.metrics)
    names = ("used", "demand", "share", "guaranteed", "limit")
    assert [now[f"bayplan_queue_{name}", "a", "cpu"] for name in names] == [2, 4, 3, 2, 3]
    assert cluster.world.queues.recount() == {}

    cluster.world.queues.sums.used_rows[0][0] += 1000
    assert samples(cluster.metrics)["bayplan_queue_used", "a", "cpu"] == 3
    assert cluster.world.queues.recount() == {"used": 1}
    now = samples(cluster.metrics)
    assert now["bayplan_queue_used", "a", "cpu"] == 2
    assert now["bayplan_queue_usage_difference",] == 1
    assert cluster.world.queues.recount() == {}
    assert samples(cluster.metrics)["bayplan_queue_usage_difference",] == 0
