"""Explain and simulate: the scheduler's own core around a file instead of a cluster.

The way of a file: `files` (text to objects), `checks` (what of it can be used), `defaults` and
`admission` (what the API server would have made of it), `cluster` (all of that in order), `offline`
(the core, its cache filled), then `bayplan.explain` or `simulate`.

What a file holds and bayplan cannot use is left out and named; it never ends in an exception other
than `ClusterFileError`, which says that there is nothing left to judge.
"""

from bayplan.simulation.cluster import Cluster, load_cluster
from bayplan.simulation.files import ClusterFileError
from bayplan.simulation.offline import offline_core
from bayplan.simulation.simulate import simulate

__all__ = [
    "Cluster",
    "ClusterFileError",
    "load_cluster",
    "offline_core",
    "simulate",
]
