"""The nodes and the Pods on them, as columns: one row per node, one NumPy array per property.

Start with `view` (what is read, and copies of some rows), then `live_table` (how it follows the
cluster). `column` says what a column is and how plugins add their own.
"""

from bayplan.cache.node_table.column import (
    ABSENT,
    BoolArray,
    CodeArray,
    CodedColumn,
    Column,
    IntArray,
    NodeColumn,
    Numbers,
    NumbersByKey,
    PodColumn,
)
from bayplan.cache.node_table.live_table import Listener, LiveNodeTable
from bayplan.cache.node_table.pod_columns import HostPort, host_ports
from bayplan.cache.node_table.view import Load, NodeInfo, NodeTable, WhatIfTable

__all__ = [
    "ABSENT",
    "BoolArray",
    "CodeArray",
    "CodedColumn",
    "Column",
    "HostPort",
    "IntArray",
    "Listener",
    "LiveNodeTable",
    "Load",
    "NodeColumn",
    "NodeInfo",
    "NodeTable",
    "Numbers",
    "NumbersByKey",
    "PodColumn",
    "WhatIfTable",
    "host_ports",
]
