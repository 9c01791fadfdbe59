"""Explain and simulate: the scheduler's core with a file instead of a cluster.

The steps: `files` (text to objects), `checks` (which objects can be used), `defaults` and
`admission` (what the API server would add), `cluster` (all of these in order), `offline` (the core
with a filled cache), then `bayplan.explain` or `simulate`.

Objects that cannot be used are left out and reported. The only exception is `ClusterFileError`:
there is nothing left to judge.
"""

from bayplan.simulation.cluster import LoadedCluster, listed_cluster, load_cluster
from bayplan.simulation.files import ClusterFileError
from bayplan.simulation.offline import offline_core
from bayplan.simulation.simulate import simulate

__all__ = [
    "ClusterFileError",
    "LoadedCluster",
    "listed_cluster",
    "load_cluster",
    "offline_core",
    "simulate",
]
