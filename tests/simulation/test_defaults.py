from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.simulation.support import entry

from bayplan.simulation.defaults import set_defaults, whole_milli


def pod_spec(**spec: bool | dict[str, dict[str, Any]] | list[dict[str, Any]]) -> dict[str, Any]:
    """The spec of a Pod after defaulting, without what every Pod gets."""
    found = entry(yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    set_defaults(found)
    always = ("restartPolicy", "terminationGracePeriodSeconds", "schedulerName")
    return {key: value for key, value in found.spec.items() if key not in always}


def resources(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    parts = {"requests": requests, "limits": limits}
    return {"resources": {key: value for key, value in parts.items() if value}, **more}


def test_every_pod_gets_a_restart_policy_a_grace_period_and_a_scheduler() -> None:
    found = entry("{kind: Pod, metadata: {name: p}, spec: {schedulerName: ''}}")
    set_defaults(found)
    assert found.spec == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    }


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("given", "requests"),
    [
        pytest.param(resources(limits={"cpu": "2"}), {"cpu": "2"}, id="from-limits"),
        pytest.param(
            resources({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            {"cpu": "1", "memory": "1Gi"},
            id="only-what-is-missing",
        ),
        pytest.param(resources({"cpu": "1"}), {"cpu": "1"}, id="no-limits"),
        pytest.param(resources({"cpu": "100u"}), {"cpu": "1m"}, id="rounded-up-to-milli"),
        pytest.param(resources({"cpu": 0.5}), {"cpu": 0.5}, id="a-number"),
    ],
)
def test_containers_request_what_they_are_limited_to(
    part: str, given: dict[str, Any], requests: dict[str, Any]
) -> None:
    assert pod_spec(**{part: [given]})[part][0]["resources"]["requests"] == requests


@pytest.mark.parametrize(
    ("pod_level", "containers", "expected"),
    [
        pytest.param(resources(), [resources({"cpu": "1"})], {}, id="nothing-given"),
        pytest.param(
            resources(limits={"cpu": "4", "memory": "1Gi"}),
            [resources({"cpu": "300m"}), resources({"cpu": "200m"})],
            {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}},
            id="requests-from-containers-then-limits",
        ),
        pytest.param(
            resources({"cpu": "1"}, {"cpu": "4"}),
            [resources({"cpu": "300m", "example.com/gpu": 1})],
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
            id="given-requests-stay",
        ),
        pytest.param(
            resources({"cpu": "1"}),
            [resources({"memory": "1Gi"})],
            {"requests": {"cpu": "1", "memory": "1073741824000m"}},
            id="requests-are-completed-without-limits-too",
        ),
        pytest.param(
            resources({"cpu": "1"}),
            [resources(limits={"hugepages-2Mi": "4Mi"})],
            {
                "requests": {"cpu": "1", "hugepages-2Mi": "4194304000m"},
                "limits": {"hugepages-2Mi": "4194304000m"},
            },
            id="limits-of-huge-pages-from-containers",
        ),
        pytest.param(
            resources({"hugepages-2Mi": "2Mi"}),
            [resources(limits={"hugepages-2Mi": "4Mi"})],
            {"requests": {"hugepages-2Mi": "2Mi"}},
            id="requested-huge-pages-stay",
        ),
        pytest.param(
            resources(limits={"example.com/gpu": 1}),
            [],
            {"limits": {"example.com/gpu": 1}},
            id="other-resources-have-no-pod-level",
        ),
    ],
)
def test_pod_level_resources_complete_each_other(
    pod_level: dict[str, Any], containers: list[dict[str, Any]], expected: dict[str, dict[str, Any]]
) -> None:
    assert pod_spec(**pod_level, containers=containers)["resources"] == expected


@pytest.mark.parametrize(
    ("host_network", "port", "expected"),
    [
        pytest.param(
            False, {"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}, id="protocol"
        ),
        pytest.param(
            True,
            {"containerPort": 80, "protocol": "UDP"},
            {"containerPort": 80, "hostPort": 80, "protocol": "UDP"},
            id="host-network",
        ),
        pytest.param(
            True,
            {"containerPort": 80, "hostPort": 90, "protocol": "TCP"},
            {"containerPort": 80, "hostPort": 90, "protocol": "TCP"},
            id="host-port-given",
        ),
    ],
)
def test_ports_get_a_protocol_and_on_the_host_network_a_host_port(
    host_network: bool, port: dict[str, Any], expected: dict[str, Any]
) -> None:
    spec = pod_spec(hostNetwork=host_network, containers=[{"ports": [port]}])
    assert spec["containers"][0]["ports"] == [expected]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            "{kind: Node, metadata: {name: n}, status: {capacity: {cpu: 4}}}",
            {"status": {"capacity": {"cpu": 4}, "allocatable": {"cpu": 4}}},
            id="allocatable-is-the-capacity",
        ),
        pytest.param(
            "{kind: Node, metadata: {name: n},"
            " status: {capacity: {cpu: 4}, allocatable: {cpu: 3}}}",
            {"status": {"capacity": {"cpu": 4}, "allocatable": {"cpu": 3}}},
            id="allocatable-given",
        ),
        pytest.param(
            "{kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 1500u}}}",
            {
                "spec": {"capacity": {"storage": "2m"}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
            id="volume",
        ),
        pytest.param(
            "{kind: PersistentVolumeClaim, metadata: {name: c}, spec: {volumeMode: Block},"
            " status: {phase: Bound}}",
            {"spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}},
            id="claim",
        ),
        pytest.param(
            "{kind: StorageClass, metadata: {name: s}}",
            {"volumeBindingMode": "Immediate"},
            id="storage-class",
        ),
        pytest.param(
            "{kind: ReplicationController, metadata: {name: r},"
            " spec: {template: {metadata: {labels: {a: b}}}}}",
            {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}, "selector": {"a": "b"}}},
            id="replication-controller",
        ),
        pytest.param("{kind: Service, metadata: {name: s}}", {}, id="nothing-to-fill-in"),
    ],
)
def test_other_kinds_get_their_defaults(given: str, expected: dict[str, Any]) -> None:
    found = entry(given)
    set_defaults(found)
    assert {k: v for k, v in found.data.items() if k not in ("kind", "metadata")} == expected


def test_a_namespace_is_labelled_with_its_name() -> None:
    found = entry("{kind: Namespace, metadata: {name: a, labels: {b: c}}}")
    set_defaults(found)
    assert found.meta["labels"] == {"b": "c", "kubernetes.io/metadata.name": "a"}


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("1", "1"), (0.25, 0.25), ("1n", "1m"), ("-1500u", "-1m"), ("1Ki", "1Ki")],
)
def test_amounts_are_whole_thousandths(amount: float | str, expected: float | str) -> None:
    assert whole_milli(amount) == expected
