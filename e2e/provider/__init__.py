"""A real Kubernetes control plane for `make run`, the end-to-end tests and the benchmark.

`provide()` picks where it comes from (see `choose`); all else is the same for all of them:

    with provide() as cluster:              # started, and stopped at the end whatever happens
        cluster.start_controller_manager()
        cluster.start_kwok()                # nodes become Ready, Pods Running
        create_nodes(cluster.kubeconfig, [NodeSpec("node-1", zone="a")])

Invariants: a part writes to and is read from its own ports only, which it proves with a certificate
made for this run; and no process outlives the one that started it, even when that one is killed.
"""

from e2e.provider.choose import provide
from e2e.provider.control_plane import ControlPlane, UnsupportedError
from e2e.provider.golang import GoProgram
from e2e.provider.kubeconfig import token_kubeconfig
from e2e.provider.nodes import NodeSpec, Taint, create_nodes
from e2e.provider.process import Part, StartError
from e2e.provider.waiting import wait_until

__all__ = [
    "ControlPlane",
    "GoProgram",
    "NodeSpec",
    "Part",
    "StartError",
    "Taint",
    "UnsupportedError",
    "create_nodes",
    "provide",
    "token_kubeconfig",
    "wait_until",
]
