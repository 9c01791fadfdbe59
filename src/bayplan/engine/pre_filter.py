"""PreFilterOutcome: what the PreFilter plugins of a profile leave of the nodes.

Merged as in kube-scheduler's ``pkg/scheduler/engine/runtime/framework.go``, RunPreFilterPlugins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayplan.cache.node_table import BoolArray, NodeTable
from bayplan.config.points import Point
from bayplan.engine.faults import AttemptFault
from bayplan.engine.row_answers.part import PreFilterAnswer
from bayplan.framework.interface import PreFilterResult
from bayplan.framework.status import Code, Status


@dataclass
class PreFilterOutcome:
    """The answers of the PreFilter plugins so far, merged.

    Attributes:
        names: the nodes that are left; None for all.
        status: why the Pod is rejected on every node, if it is.
        domain: ``(n,)`` the rows that the attempt is limited to, see `CycleState`; None for all.
        narrowed_by: the plugins that narrowed ``names``.
        nominated: the row and status of the nominated node, if the Pod did not fit there. It counts
            even where ``names`` excludes that node.
    """

    names: frozenset[str] | None = None
    status: Status | None = None
    domain: BoolArray | None = None
    narrowed_by: set[str] = field(default_factory=set)
    nominated: tuple[int, Status] | None = None

    @property
    def excluding(self) -> Status:
        """The status of the nodes that ``names`` excludes.

        It lists the plugins that narrowed them, and the one that rejected the nominated node:
        kube-scheduler keeps these in one set.
        """
        plugins = self.narrowed_by
        if self.nominated is not None and self.nominated[1].rejected:
            plugins = plugins | {self.nominated[1].plugin}
        listed = " ".join(sorted(plugins))
        return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")

    def mask(self, nodes: NodeTable) -> BoolArray | None:
        """``names`` within ``domain`` as rows, ``(n,)``; None for all."""
        if self.names is None:
            return self.domain
        mask = np.zeros(len(nodes), np.bool_)
        mask[[row for name in self.names if (row := nodes.row(name)) is not None]] = True
        return mask if self.domain is None else mask & self.domain

    def merge(self, plugin: str, answer: PreFilterAnswer) -> bool:
        """Take in the answer of ``plugin``; False when the plugins after it need not be asked.

        Raises:
            AttemptFault: it reported an error.
        """
        if isinstance(answer, PreFilterResult):
            return self._narrow(plugin, answer.node_names)
        if answer is None or answer.ok or answer.code is Code.SKIP:
            return True
        if not answer.rejected or answer.code is Code.PENDING:
            raise AttemptFault(Point.PRE_FILTER, plugin, answer)
        self.status = answer.by(plugin)
        if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.narrowed_by = set()
            return False
        return True

    def _narrow(self, plugin: str, names: frozenset[str] | None) -> bool:
        if names is None:
            return True
        self.narrowed_by.add(plugin)
        self.names = names if self.names is None else self.names & names
        if self.names:
            return True
        listed = " ".join(sorted(self.narrowed_by))
        one = len(self.narrowed_by) == 1
        self.status = Status.unresolvable(
            f"node(s) didn't satisfy plugin {listed}"
            if one
            else f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously"
        )
        return False
