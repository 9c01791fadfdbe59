"""The test kit for plugins: builders of objects, and a cluster without an API server.

>>> from bayplan.testing import Cluster, make_node, make_pod
>>> cluster = Cluster(AvoidNode)
>>> cluster.add(make_node("n1").capacity(cpu="4", pods=110).label("avoid", "true"))
>>> cluster.add(make_pod("web").req(cpu="1"))
>>> cluster.run()
>>> cluster.message("web")
'0/1 nodes are available: 1 node(s) were to be avoided.'
"""

from bayplan.testing.builder import Builder, Json, make_object
from bayplan.testing.cluster import PROFILE, Cluster
from bayplan.testing.nodes import NodeBuilder, make_node
from bayplan.testing.pods import PodBuilder, make_pod
from bayplan.testing.ports import Clock, InlineExecutor, RecordedEvent, Recorder, Writer
from bayplan.testing.selectors import expressions, fields, labels_are, requirement
from bayplan.testing.storage import (
    make_csi_driver,
    make_csi_node,
    make_pv,
    make_pvc,
    make_storage_capacity,
    make_storage_class,
    make_volume_attachment,
)

__all__ = [
    "PROFILE",
    "Builder",
    "Clock",
    "Cluster",
    "InlineExecutor",
    "Json",
    "NodeBuilder",
    "PodBuilder",
    "RecordedEvent",
    "Recorder",
    "Writer",
    "expressions",
    "fields",
    "labels_are",
    "make_csi_driver",
    "make_csi_node",
    "make_node",
    "make_object",
    "make_pod",
    "make_pv",
    "make_pvc",
    "make_storage_capacity",
    "make_storage_class",
    "make_volume_attachment",
    "requirement",
]
