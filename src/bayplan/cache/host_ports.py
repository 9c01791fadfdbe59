"""The ports that a Pod takes on its node."""

from __future__ import annotations

from bayplan.api.pod import PodShape
from bayplan.api.pod_spec import ContainerPort

HostPort = tuple[str, str, int]
"""(host IP, protocol, port)."""


def host_ports(shape: PodShape) -> tuple[HostPort, ...]:
    """The host ports of a Pod's containers and sidecars, as (IP, protocol, port)."""
    sidecars = [c for c in shape.spec.init_containers if c.restart_policy == "Always"]
    return tuple(
        _host_port(port)
        for container in (*shape.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def _host_port(port: ContainerPort) -> HostPort:
    return (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104
