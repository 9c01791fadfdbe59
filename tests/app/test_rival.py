"""A warning where kube-scheduler would schedule the same Pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.fault_server import FaultServer

from bayplan.api.pod import Pod
from bayplan.app import rival
from bayplan.client.http import Http
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.testing import make_pod

NOW = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: {elect}, resourceName: {lease}, resourceNamespace: kube-system}}
profiles: [{{schedulerName: {name}}}]
"""


@pytest.mark.parametrize(
    ("name", "elect", "lease", "possible"),
    [
        pytest.param("default-scheduler", "false", "kube-scheduler", True, id="no election"),
        pytest.param("default-scheduler", "true", "bayplan", True, id="another Lease"),
        pytest.param("default-scheduler", "true", "kube-scheduler", False, id="the same Lease"),
        pytest.param("bayplan", "false", "bayplan", False, id="another schedulerName"),
    ],
)
def test_two_schedulers_of_one_name_need_one_lease(
    name: str, elect: str, lease: str, possible: bool
) -> None:
    text = CONFIG.format(name=name, elect=elect, lease=lease)
    assert rival.is_possible(parse_config(text, Registry().known)) is possible


def held(holder: str | None, renewed: str | None) -> dict[str, Any]:
    return {
        "metadata": {"name": "kube-scheduler"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


@pytest.mark.parametrize(
    ("lease", "warned"),
    [
        pytest.param(held("ks", "2026-01-01T00:00:05.000000Z"), True, id="alive"),
        pytest.param(held("ks", "2025-12-31T23:59:05.000000Z"), False, id="long dead"),
        pytest.param(held("", "2026-01-01T00:00:05.000000Z"), False, id="given up"),
        pytest.param(held("ks", None), False, id="never renewed"),
    ],
)
def test_a_live_holder_of_its_lease_is_warned_of(
    server: FaultServer, lease: dict[str, Any], warned: bool
) -> None:
    server.script = lambda exchange: exchange.answer(200, lease)
    assert rival.warn(Http(server.connection()), NOW) is warned
    assert server.requests[0].path.endswith("/namespaces/kube-system/leases/kube-scheduler")


def test_who_may_not_read_the_lease_is_not_warned(server: FaultServer) -> None:
    server.script = lambda exchange: exchange.error(403, "Forbidden")
    assert not rival.warn(Http(server.connection()), NOW)


def replica(name: str, namespace: str, app: str) -> Pod:
    labels = {"app.kubernetes.io/name": "bayplan", "app": app}
    builder = make_pod(name).namespace(namespace).node("n1")
    for key, value in labels.items():
        builder = builder.label(key, value)
    return builder.obj()


@pytest.mark.parametrize(
    ("others", "warned"),
    [
        pytest.param([replica("b", "kube-system", "bayplan")], [], id="a replica"),
        pytest.param([replica("b", "blue", "bayplan")], ["blue/bayplan"], id="other namespace"),
        pytest.param(
            [replica("b", "kube-system", "second")], ["kube-system/second"], id="second release"
        ),
        pytest.param([replica("c", "other", "bayplan-controllers")], [], id="controllers"),
        pytest.param([make_pod("web").obj()], [], id="no bayplan"),
    ],
)
def test_another_installation_is_warned_of(others: list[Pod], warned: list[str]) -> None:
    pods = [replica("a", "kube-system", "bayplan"), *others]
    assert rival.warn_of_releases(pods, "a") == warned


def test_outside_of_pods_nothing_is_said_of_installations() -> None:
    assert rival.warn_of_releases([replica("a", "kube-system", "bayplan")], "a-laptop") == []
