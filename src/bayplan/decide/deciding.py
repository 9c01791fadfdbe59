"""Deciding about one Pod: search, assume, Reserve, Permit; given back unless it is kept.

The trial of a single Pod is the undo of its commit, so it costs nothing where the decision is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec

from bayplan.api.pod import Pod
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Member
from bayplan.attempt.outcome import Placement, Rejection
from bayplan.engine.diagnosis import Diagnosis
from bayplan.engine.runtime import Framework
from bayplan.engine.search import PluginScores
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.effects import Effect
from bayplan.groups.placers import Placers


class Detail(msgspec.Struct, frozen=True, eq=False):
    """What the search saw, for people. Only of a Pod for which some node fits.

    Attributes:
        diagnosis: the status of every node.
        scores: of every feasible node, by plugin; None where no node was to be scored.
    """

    diagnosis: Diagnosis
    scores: Sequence[PluginScores] | None = None


class Decision(msgspec.Struct, frozen=True, eq=False):
    """What is to become of a Pod.

    Attributes:
        state: the notes of its plugins.
        pod: the Pod.
        placement: the node; None where none fits.
        member: the Pod on that node, assumed and reserved; None where it was rejected, or Reserve
            was not asked.
        rejection: why the Pod gets no node, or not that one; None where it gets it.
        effects: what is to be done when the decision is applied, in order.
        keep: has the Pod stay on its node when the ``with`` block ends.
        searched_at: when the search had ended, as `time.perf_counter` says it.
        detail: where it was asked for, and some node fits.
    """

    state: CycleState
    pod: Pod
    placement: Placement | None
    member: Member | None
    rejection: Rejection | None
    effects: Sequence[Effect]
    keep: Callable[[], None]
    searched_at: float
    detail: Detail | None = None

    @property
    def evaluated(self) -> int:
        """How many nodes were filtered."""
        if self.placement is not None:
            return self.placement.evaluated
        return 0 if self.rejection is None else self.rejection.evaluated


class deciding:  # noqa: N801 - read as a function, in a with statement
    """Decides about ``pod`` for the length of a ``with`` block. Scheduling thread only.

    Whatever the decision took is given back at the end of the block, unless `Decision.keep` was
    called: the node, what plugins reserved, the nomination, and where the next sample of nodes
    begins.

    Args:
        placers: the scheduler's.
        framework: the profile.
        pod: the Pod.
        acting: whether PostFilter plugins are asked that act by themselves (`Plugin.pure`). So it
            is in the scheduling cycle; a question leaves them out.
        detailed: whether `Decision.detail` is wanted.
        commits: whether Reserve and Permit plugins are asked about the node. Not of a Pod that runs
            and is judged as if it were pending: plugins would give back what the Pod holds.
    """

    __slots__ = (
        "_acting",
        "_commits",
        "_detailed",
        "_framework",
        "_kept",
        "_member",
        "_nominated",
        "_placers",
        "_pod",
        "_sample_start",
    )

    def __init__(
        self,
        placers: Placers,
        framework: Framework,
        pod: Pod,
        *,
        acting: bool = False,
        detailed: bool = False,
        commits: bool = True,
    ) -> None:
        self._placers, self._framework, self._pod = placers, framework, pod
        self._acting, self._detailed, self._commits = acting, detailed, commits
        self._member: Member | None = None
        self._nominated = placers.nominator.nominated_node(pod.uid)
        self._sample_start = placers.selector.sampler.start
        self._kept = False

    def __enter__(self) -> Decision:
        """Decide. Never raises, but where details are wanted and a plugin breaks over these.

        Raises:
            AttemptFault: see above.
        """
        placers, framework, pod = self._placers, self._framework, self._pod
        state = CycleState(timed=self._acting, explained=self._detailed)
        outcome = attempt(framework, placers.selector, state, pod, acting=self._acting)
        searched_at = perf_counter()
        if isinstance(outcome, Rejection):
            return Decision(state, pod, None, None, outcome, state.effects, self._keep, searched_at)
        detail = _detail(framework, state, pod, outcome) if self._detailed else None
        member = rejection = None
        if self._commits:
            taken = placers.commit.run(Choice(framework, state, pod, outcome.node_name))
            member, rejection = (None, taken) if isinstance(taken, Rejection) else (taken, None)
        self._member = member
        return Decision(
            state,
            pod,
            outcome,
            member,
            rejection,
            state.effects,
            self._keep,
            searched_at,
            detail,
        )

    def _keep(self) -> None:
        self._kept = True

    def __exit__(self, *_exc: object) -> None:
        """Give back what was taken, if it is not kept."""
        if self._kept:
            return
        placers, pod = self._placers, self._pod
        if self._member is not None:
            placers.commit.undo([self._member])
        if self._nominated and not placers.nominator.nominated_node(pod.uid):
            placers.nominator.nominate(pod, self._nominated)
        placers.selector.sampler.start = self._sample_start


def _detail(framework: Framework, state: CycleState, pod: Pod, placement: Placement) -> Detail:
    """The status of every node and all scores, before the Pod counts anywhere."""
    diagnosis, fit = placement.fit.diagnosis, placement.fit
    if diagnosis is None or pod.status.nominated_node_name or state.domain is not None:
        fresh = CycleState(timed=False)
        diagnosis, _ = framework.search.diagnose(fresh, pod, with_nominated=False)
    if fit.nominated is not None or fit.count <= 1 or not framework.search.scores_anything:
        return Detail(diagnosis)
    return Detail(diagnosis, framework.search.score_parts(state, pod, fit))
