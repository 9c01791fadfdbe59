from __future__ import annotations

import pytest
from tests.plugins.harness import filtered, hint, make, pre_filtered, table_of

from bayplan.api.kinds import NODE
from bayplan.framework.cluster_events import Action, Hint, Resource
from bayplan.framework.status import SKIP, SUCCESS, Status
from bayplan.plugins.node_ports import NodePorts
from bayplan.testing import PodBuilder, make_node, make_pod

TAKEN = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


def test_a_pod_without_host_ports_skips_the_filter() -> None:
    pod = make_pod().container(ports=[{"containerPort": 80}]).obj()
    assert pre_filtered(make(NodePorts), pod, table_of(make_node())) is SKIP


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        pytest.param(make_pod().host_port(80), make_pod(), SUCCESS, id="nothing-used"),
        pytest.param(make_pod().host_port(80), make_pod().host_port(81), SUCCESS, id="other-port"),
        pytest.param(make_pod().host_port(80), make_pod().host_port(80), TAKEN, id="same-port"),
        pytest.param(
            make_pod().host_port(80, "UDP"), make_pod().host_port(80), SUCCESS, id="other-protocol"
        ),
        pytest.param(
            make_pod().host_port(80, ip="10.0.0.1"),
            make_pod().host_port(80, ip="10.0.0.2"),
            SUCCESS,
            id="other-ip",
        ),
        pytest.param(
            make_pod().host_port(80, ip="10.0.0.1"),
            make_pod().host_port(80, ip="10.0.0.1"),
            TAKEN,
            id="same-ip",
        ),
        pytest.param(
            make_pod().host_port(80),
            make_pod().host_port(80, ip="10.0.0.2"),
            TAKEN,
            id="wants-all-addresses",
        ),
        pytest.param(
            make_pod().host_port(80, ip="10.0.0.1"),
            make_pod().host_port(80),
            TAKEN,
            id="all-addresses-used",
        ),
        pytest.param(
            make_pod().host_port(79).host_port(80),
            make_pod().host_port(80).host_port(81),
            TAKEN,
            id="one-of-several",
        ),
        pytest.param(
            make_pod().host_port(80),
            make_pod().init_container(
                restartPolicy="Always", ports=[{"containerPort": 80, "hostPort": 80}]
            ),
            TAKEN,
            id="used-by-a-sidecar",
        ),
        pytest.param(
            make_pod().host_port(80),
            make_pod().init_container(ports=[{"containerPort": 80, "hostPort": 80}]),
            SUCCESS,
            id="init-containers-do-not-count",
        ),
    ],
)
def test_a_host_port_is_free_when_no_pod_on_the_node_has_it(
    wanted: PodBuilder, used: PodBuilder, expected: Status
) -> None:
    nodes = table_of(make_node("n"), make_node("empty"))
    row = nodes.row("n")
    assert row is not None
    nodes.add_pod(row, used.obj())
    statuses = filtered(make(NodePorts), wanted.obj(), nodes)
    assert statuses == {"n": expected, "empty": SUCCESS}


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(make_pod().host_port(80).node("n"), Hint.QUEUE, id="frees-the-port"),
        pytest.param(make_pod().host_port(80).nominated("n"), Hint.QUEUE, id="was-nominated"),
        pytest.param(make_pod().host_port(80), Hint.SKIP, id="was-nowhere"),
        pytest.param(make_pod().host_port(81).node("n"), Hint.SKIP, id="other-port"),
        pytest.param(make_pod().node("n"), Hint.SKIP, id="no-ports"),
    ],
)
def test_a_pod_is_woken_by_one_that_frees_its_port(deleted: PodBuilder, expected: Hint) -> None:
    plugin, pod = make(NodePorts), make_pod().host_port(80).obj()
    place = Resource.ASSIGNED_POD
    assert hint(plugin, place, Action.DELETE, pod, deleted.obj(), None) is expected


def test_a_new_node_wakes_the_pod() -> None:
    pod = make_pod().host_port(80).obj()
    answer = hint(make(NodePorts), NODE, Action.ADD, pod, None, make_node().obj())
    assert answer is Hint.QUEUE
