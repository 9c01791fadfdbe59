"""The scheduling framework: what plugin authors import.

>>> from bayplan.framework import Plugin, Status
>>> class AvoidNode(Plugin):
...     def filter(self, state, pod, node):
...         if node.labels.get("avoid") == "true":
...             return Status.unschedulable("node(s) are to be avoided")
"""

from bayplan.framework.cycle_state import CycleState
from bayplan.framework.handle import Handle
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    Depends,
    NodeInfo,
    NodeTable,
    Normalizer,
    Plugin,
    PostFilterResult,
    PreFilterResult,
)
from bayplan.framework.status import SKIP, SUCCESS, WAIT, Code, Status

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "WAIT",
    "Code",
    "CycleState",
    "Depends",
    "Handle",
    "NodeInfo",
    "NodeTable",
    "Normalizer",
    "Plugin",
    "PostFilterResult",
    "PreFilterResult",
    "Status",
]
