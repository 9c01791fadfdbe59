"""Fill: places Pods of a group one after the other, each with the previous ones assumed.

Each Pod gets an ordinary attempt and is then assumed and reserved, so that the next one sees it on
its node, with its volumes and devices. PostFilter is not asked: groups make room as a whole.

A group of the policy `KUBERNETES` is tried Pod by Pod (`Fill.place`), each once. For others
`Fill.run` repeats its passes until no further Pod fits: a Pod that is rejected is tried again only
after Pods of another shape were placed, which may attract it; its siblings of the same shape not
even that, so a group that does not fit costs one attempt more than fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.pod import Pod, PodShape, SpecPart
from bayplan.attempt.attempt import attempt
from bayplan.attempt.commit import Choice, Commit, Member
from bayplan.attempt.outcome import Placement, Rejection
from bayplan.attempt.selection import NodeChooser
from bayplan.cache.node_table import BoolArray
from bayplan.engine.runtime import Framework
from bayplan.framework.cycle_state import OUTSIDE, CycleState
from bayplan.framework.effects import Effect
from bayplan.framework.interface import PodPart
from bayplan.framework.status import Status
from bayplan.groups.decision import Placed
from bayplan.queue.nominator import Nominator

Parts = tuple[SpecPart, SpecPart]
Rejected = tuple[Pod, Rejection]
"""A Pod, and why it has no node."""


class Fill:
    """Places Pods of one profile.

    Args:
        framework: the profile.
        selector: chooses their nodes.
        commit: has them count there.
        nominator: Pods nominated to nodes.
        acting: whether this is the scheduling cycle, which is timed; a question keeps the rows of
            each placement instead, to say which nodes were as good.

    Attributes:
        placed: the Pods that were placed.
        attempts: how many there were in all.
        effects: by uid, what plugins want done about each Pod that was tried, when the decision is
            applied: those of the latest attempt, or of its undo.
        by_rows_alone: set to True, it stays so as long as only kept answers decide.
    """

    def __init__(
        self,
        framework: Framework,
        selector: NodeChooser,
        commit: Commit,
        nominator: Nominator,
        *,
        acting: bool = False,
    ) -> None:
        self._framework, self._selector, self._commit = framework, selector, commit
        self._nominator, self._acting = nominator, acting
        self._nominations: dict[str, tuple[Pod, str]] = {}
        self.placed: list[Placed] = []
        self.attempts = 0
        self.effects: dict[str, Sequence[Effect]] = {}
        self.by_rows_alone = False

    @property
    def members(self) -> list[Member]:
        """The Pods that were placed, on their nodes."""
        return [placed.member for placed in self.placed]

    def run(
        self, pods: Sequence[Pod], domain: BoolArray | None = None, most: int | None = None
    ) -> list[Rejected]:
        """Place as many as fit.

        Args:
            pods: in the order in which they are tried.
            domain: ``(n,)`` the rows that may be used; None for all.
            most: no more than so many; None for all.

        Returns:
            Rejections of the Pods that did not fit, one per shape.
        """
        left, rejected = list(pods), list[Rejected]()
        mixed = len({pod.shape for pod in pods}) > 1
        end = len(self.placed) + (len(left) if most is None else most)
        while left and len(self.placed) < end:
            before = len(self.placed)
            left, rejected = self._pass(left, domain, end)
            if not mixed or len(self.placed) == before:
                break
        return rejected

    def undo(self, mark: int = 0) -> None:
        """Only the first ``mark`` Pods count from now on; others are nominated as before."""
        for placed in reversed(self.placed[mark:]):
            self._give_back(placed)
        del self.placed[mark:]

    def give_back(self, placed: Placed) -> None:
        """A placed Pod no longer counts on its node."""
        self.placed.remove(placed)
        self._give_back(placed)

    def _give_back(self, placed: Placed) -> None:
        uid = placed.member.pod.uid
        self.effects[uid] = self._commit.undo([placed.member])
        if nomination := self._nominations.pop(uid, None):
            self._nominator.nominate(*nomination)

    def _pass(
        self, pods: Sequence[Pod], domain: BoolArray | None, end: int
    ) -> tuple[list[Pod], list[Rejected]]:
        left: list[Pod] = []
        rejections: dict[Parts | PodShape, Rejected] = {}
        for pod in pods:
            if len(self.placed) == end:
                break
            if pod.shape not in rejections and _parts(pod) not in rejections:
                rejection = self.place(pod, domain)
                if rejection is None:
                    continue
                rejections[self._alike(pod, rejection)] = pod, rejection
            left.append(pod)
        return left, list(rejections.values())

    def _alike(self, pod: Pod, rejection: Rejection) -> Parts | PodShape:
        """What other Pods share that would be rejected for the same reason.

        Row-local plugins do not see more of a Pod than the parts of its spec, so Pods of an indexed
        Job, which differ in a label, are alike to them.
        """
        plugins, local = rejection.unschedulable_plugins, self._framework.plugins.local
        seen = all(local.get(name, PodPart.SHAPE) is not PodPart.SHAPE for name in plugins)
        return _parts(pod) if plugins and seen else pod.shape

    def place(
        self, pod: Pod, domain: BoolArray | None, outside: Status | None = OUTSIDE
    ) -> Rejection | None:
        """Place one Pod, or say why not.

        Args:
            pod: the Pod.
            domain: ``(n,)`` the rows that may be used; None for all.
            outside: the status of all other rows; None where a message is to leave these out.
        """
        self.attempts += 1
        state = CycleState(timed=self._acting, domain=domain, outside=outside)
        self.effects[pod.uid] = state.effects
        outcome = attempt(self._framework, self._selector, state, pod, make_room=False)
        if self.by_rows_alone:
            scored = isinstance(outcome, Placement) and outcome.fit.count > 1
            self.by_rows_alone = not self._framework.search.asked_others(state, scored=scored)
        if isinstance(outcome, Rejection):
            return outcome
        return self.take(pod, state, outcome)

    def take(self, pod: Pod, state: CycleState, placement: Placement) -> Rejection | None:
        """Have the Pod count on the node of ``placement``, by the notes of that attempt."""
        self.effects[pod.uid] = state.effects
        nominated = self._nominator.nominated_node(pod.uid)
        member = self._commit.take(Choice(self._framework, state, pod, placement.node_name))
        if isinstance(member, Rejection):
            return member
        if nominated:
            self._nominations[pod.uid] = pod, nominated
        self.placed.append(Placed(member, placement.without_rows() if self._acting else placement))
        return None


def _parts(pod: Pod) -> Parts:
    return pod.shape.constraints, pod.shape.requests
