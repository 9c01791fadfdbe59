"""Trials: Pods taken off their nodes and placed elsewhere for the length of a ``with`` block.

They are the scheduler's own steps: PreFilter to Score, assume and Reserve. At the end of the
outermost block the cluster is as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from bayplan.api.pod import Pod
from bayplan.attempt.commit import Choice, Member
from bayplan.attempt.outcome import Rejection
from bayplan.engine.faults import AttemptFault
from bayplan.engine.search import Fit, NodeSearch
from bayplan.framework.cycle_state import CycleState
from bayplan.improve.deciders import Deciders


class Trials:
    """See the module's docstring. Scheduling thread only.

    Attributes:
        tries: how often nodes were sought for a Pod.
    """

    def __init__(self, core: Deciders) -> None:
        self._profiles, self._placers = core.profiles, core.placers
        self._cache = core.world.cache
        self.tries = 0

    def search(self, pod: Pod) -> NodeSearch:
        """That of the Pod's profile."""
        return self._profiles[pod.spec.scheduler_name].search

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """As if these Pods were gone."""
        with self._cache.trial(), ExitStack() as stack:
            for pod in pods:
                framework = self._profiles.get(pod.spec.scheduler_name)
                for holdings in framework.services.holdings if framework is not None else ():
                    stack.enter_context(holdings.without(pod))
                self._cache.remove(pod.uid)
            yield

    def held_by(self, pod: Pod) -> set[str]:
        """The plugins that may reject the Pod for what others hold besides requested resources."""
        services = self._profiles[pod.spec.scheduler_name].services
        return {some.name for some in services.holdings}

    def seek(self, pod: Pod) -> tuple[CycleState, Fit]:
        """The nodes that fit for a Pod without node, and what plugins noted.

        Raises:
            AttemptFault: a plugin broke.
        """
        self.tries += 1
        state = CycleState(timed=False)
        return state, self.search(pod).find(state, pod, nominated_first=False)

    def ranked(self, pod: Pod) -> list[int]:
        """The rows of the nodes that fit, the scheduler's choice first; none if a plugin breaks."""
        try:
            state, fit = self.seek(pod)
            if not fit.count:
                return []
            rows = np.flatnonzero(fit.feasible)
            search = self.search(pod)
            if fit.count > 1 and search.scores_anything:
                totals = search.score(state, pod, fit)[rows].astype(np.int64)
                rows = rows[np.argsort(-totals, kind="stable")]
        except AttemptFault:
            return []
        ordered: list[int] = rows.tolist()
        return ordered

    @contextmanager
    def placed(self, pod: Pod, row: int) -> Iterator[bool]:
        """With the Pod on the node at ``row``; False where it does not fit there."""
        member = self._take(pod, row)
        try:
            yield member is not None
        finally:
            if member is not None:
                self._placers.commit.undo([member])

    def _take(self, pod: Pod, row: int) -> Member | None:
        try:
            state, fit = self.seek(pod)
        except AttemptFault:
            return None
        if not fit.feasible[row]:
            return None
        framework = self._profiles[pod.spec.scheduler_name]
        name = self._cache.nodes.names[row] or ""
        taken = self._placers.commit.take(Choice(framework, state, pod, name))
        return None if isinstance(taken, Rejection) else taken
