"""Applying: a plan is carried out, one step after the other.

1. The plan is compared with the cluster: its identity, every Pod, every node that is named.
2. Every eviction is tried without effect (`dryRun`), so what a budget or a right forbids is known.
3. The order goes into the Lease, and the running scheduler holds all rooms (`Hold`,
   `bayplan.app.improvement`).
4. Step by step: the scheduler proves once more that all of the rest can be made, the Pods of the
   step are evicted, and each has to be bound on its room before the next step.
5. The Pods of the goal are bound on theirs.

At the first deviation it stops. However it ends, the rooms are free: the Lease is given up, or runs
out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from bayplan.api.kinds import NAMESPACE, NODE, POD
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.hold import HeldError, Hold
from bayplan.client.http import Http
from bayplan.improve.orders import ANSWER, ORDER, Answer, Order, Target, fingerprint, read, written
from bayplan.improve.plan import KIND, SYSTEM

ANSWER_SECONDS = 30.0
"""How long the running scheduler may take to hold the rooms."""
LOOK_SECONDS = 0.25
_DEFAULT_GRACE = 30
Json = dict[str, Any]


class RefusedError(Exception):
    """Nothing was touched; the text says why."""


class StoppedError(Exception):
    """Something differs from the plan; the text says what."""


class PlannedMove(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of a move; see docs/improve.md."""

    step: int
    pod: str
    to: str
    uid: str
    resource_version: str
    from_: str = msgspec.field(name="from", default="")


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an ImprovePlan."""

    kind: str
    goal: str
    reached: bool
    sentence: str
    token: str = ""
    cluster: str = ""
    moves: tuple[PlannedMove, ...] = ()
    placed: Mapping[str, str] = {}
    waiting: Mapping[str, str] = {}
    emptied: tuple[str, ...] = ()
    mends: bool = False
    nodes: Mapping[str, str] = {}

    @property
    def order(self) -> Order:
        """What the scheduler is told of it."""
        moves = tuple(Target(one.pod, one.uid, one.to, one.step) for one in self.moves)
        goal = tuple(Target(pod, uid, self.placed[pod]) for pod, uid in self.waiting.items())
        return Order(self.token, moves, goal, mends=self.mends)


def read_plan(data: Any) -> Plan:
    """What ``-o json`` or ``-o yaml`` prints.

    Raises:
        RefusedError: it is no plan.
    """
    try:
        plan = msgspec.convert(data, Plan)
    except msgspec.ValidationError as error:
        raise RefusedError(f"this is no plan of bayplan improve: {error}") from None
    if plan.kind != KIND:
        raise RefusedError(f"this is no plan of bayplan improve, but of kind {plan.kind}")
    return plan


def plan_of(data: Any) -> Plan:
    """The plan in what ``-o json`` or ``-o yaml`` prints, to be applied.

    Raises:
        RefusedError: it is none, or one without moves.
    """
    plan = read_plan(data)
    if not plan.reached:
        raise RefusedError(f"there is nothing to apply: {plan.sentence}")
    if not plan.cluster:
        raise RefusedError("the plan does not say of which cluster: it was made from files")
    if set(plan.waiting) - set(plan.placed):
        raise RefusedError("this is no plan of bayplan improve: `waiting` and `placed` differ")
    return plan


class Application:
    """Applies one plan; see the module's docstring.

    Args:
        http: to the API server.
        hold: the Lease.
        plan: what to do.
        wait: how many seconds a Pod may take to be bound, after the evicted one has ended.
        say: gets a line for each thing that is done.
        notes: more annotations of the Lease, written before the first eviction.

    Attributes:
        evicted: the Pods that were evicted so far, as ``namespace/name``.
    """

    def __init__(
        self,
        http: Http,
        hold: Hold,
        plan: Plan,
        wait: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        notes: Mapping[str, str] = {},
    ) -> None:
        self._http, self._hold, self._plan, self._wait, self._say = http, hold, plan, wait, say
        self._notes = notes
        self._clock, self._sleep = clock, sleep
        self._grace: dict[str, float] = {}
        self._answer = Answer("", ("", ""))
        self.evicted: list[str] = []

    def run(self) -> str:
        """Apply the plan; returns what holds now, as a sentence.

        Raises:
            RefusedError: it cannot be applied; nothing was touched.
            StoppedError: it was stopped after a Pod had been evicted.
        """
        try:
            self._compare()
            for move in self._plan.moves:
                self._evict(move, dry=True)
        except (ApiError, StoppedError) as error:
            raise RefusedError(str(error)) from None
        with self._holding():
            for step in self._plan.order.steps:
                self._make(step)
            if self._plan.waiting:
                self._reach()
        return self._done()

    # Before anything is touched

    def _compare(self) -> None:
        """Raise a RefusedError if the cluster is not what the plan was made for."""
        plan = self._plan
        system = NAMESPACE.decode(self._http.get(NAMESPACE.path(name=SYSTEM)))
        if system.uid != plan.cluster:
            raise RefusedError("the plan is of another cluster: kube-system has another uid")
        for move in plan.moves:
            self._compare_pod(move)
        for key, uid in plan.waiting.items():
            pod = self._pod(key)
            if pod is None or pod["metadata"]["uid"] != uid:
                raise RefusedError(f"Pod {key} is gone since the plan was made")
            if pod["spec"].get("nodeName"):
                raise RefusedError(f"Pod {key} has a node already: {pod['spec']['nodeName']}")
        for name, said in plan.nodes.items():
            self._compare_node(name, said)
        for name in plan.emptied:
            if not NODE.decode(self._http.get(NODE.path(name=name))).spec.unschedulable:
                text = f"others would come to node {name}: kubectl cordon {name}, and plan again"
                raise RefusedError(text)

    def _compare_pod(self, move: PlannedMove) -> None:
        pod = self._pod(move.pod)
        if pod is None or pod["metadata"]["uid"] != move.uid:
            raise RefusedError(f"Pod {move.pod} is gone since the plan was made")
        if pod["metadata"]["resourceVersion"] != move.resource_version:
            raise RefusedError(f"Pod {move.pod} has changed since the plan was made")
        seconds = pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
        self._grace[move.uid] = float(seconds)

    def _compare_node(self, name: str, said: str) -> None:
        try:
            node = NODE.decode(self._http.get(NODE.path(name=name)))
        except NotFound:
            raise RefusedError(f"node {name} is gone since the plan was made") from None
        if fingerprint(node) != said:
            raise RefusedError(f"node {name} has changed since the plan was made")

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """With all rooms held; at the end of the block they are free."""
        try:
            self._hold.acquire({ORDER: written(self._plan.order)})
        except (HeldError, ApiError) as error:
            raise RefusedError(str(error)) from None
        try:
            yield
        except (StoppedError, HeldError, ApiError, KeyboardInterrupt) as error:
            why = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            raise (StoppedError if self.evicted else RefusedError)(why) from None
        finally:
            self._hold.give_up()

    # One step

    def _make(self, step: Sequence[Target]) -> None:
        """Make the moves of a step."""
        number = step[0].step
        if self.evicted:
            self._turn_to(number)
        self._until(
            lambda: self._answer.step >= number,
            ANSWER_SECONDS,
            self._unanswered,
        )
        if self._plan.waiting and set(self._plan.waiting.values()) <= set(self._answer.placed):
            raise StoppedError(f"{self._plan.goal} already, without step {number}")
        if not self.evicted:
            for name, text in self._notes.items():
                self._hold.annotate(name, text)
        for move in self._plan.moves:
            if move.step == number:
                self._evict(move)
                self._say(f"step {number}: {move.pod} is evicted from {move.from_}")
        uids = [target.uid for target in step]
        within = self._wait + max(self._grace[uid] for uid in uids)
        self._until(lambda: self._are_placed(uids), within, lambda: self._missing(step))
        for target in step:
            self._say(f"step {number}: {self._answer.placed[target.uid]} is on {target.to}")

    def _unanswered(self) -> str:
        return (
            f"no scheduler answers in the Lease {self._hold.where}: does the one of --lease lead, "
            "may it list, watch and patch this Lease, and is it older?"
        )

    def _reach(self) -> None:
        """Let the Pods of the goal be bound."""
        order = self._plan.order
        self._turn_to(len(order.steps) + 1)
        uids = [target.uid for target in order.goal]
        self._until(lambda: self._are_placed(uids), self._wait, lambda: self._missing(order.goal))

    def _turn_to(self, step: int) -> None:
        """Ask the scheduler whether the rest can be made, from this step on."""
        order = msgspec.structs.replace(self._plan.order, step=step)
        self._hold.annotate(ORDER, written(order))

    def _are_placed(self, uids: Sequence[str]) -> bool:
        return all(uid in self._answer.placed for uid in uids)

    def _until(
        self, holds: Callable[[], bool], seconds: float, otherwise: Callable[[], str]
    ) -> None:
        """Wait until it holds by the scheduler's answer.

        Raises:
            StoppedError: it does not in time, or the scheduler says that something differs.
            HeldError: the Lease was lost.
            ApiError: the Lease cannot be read.
        """
        deadline = self._clock() + seconds
        while True:
            answer = read(self._hold.annotations(), ANSWER, Answer)
            if answer is not None:
                self._answer = answer
                if answer.failed:
                    raise StoppedError(answer.failed)
                if holds():
                    return
            if self._clock() >= deadline:
                raise StoppedError(otherwise())
            self._sleep(LOOK_SECONDS)

    def _missing(self, targets: Sequence[Target]) -> str:
        """Why not all of these are placed."""
        left = next(one for one in targets if one.uid not in self._answer.placed)
        made = self._answer.made.get(left.uid)
        if made is None:
            return f"nothing was made again for {left.pod}"
        pod = self._pod(made)
        conditions = [] if pod is None else pod["status"].get("conditions") or []
        why = next((c.get("message") for c in conditions if c["type"] == "PodScheduled"), None)
        return f"{made} is not bound to its room on {left.to}{f': {why}' if why else ''}"

    def _evict(self, move: PlannedMove, *, dry: bool = False) -> None:
        namespace, name = move.pod.split("/")
        options: Json = {"preconditions": {"uid": move.uid}}
        if dry:
            options["dryRun"] = ["All"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options}
        body["metadata"] = {"namespace": namespace, "name": name}
        path = f"{POD.path(namespace, name)}/eviction"
        try:
            self._http.once("POST", path, msgspec.json.encode(body))
        except ApiError as error:
            if error.outcome_unknown and not dry:
                self.evicted.append(move.pod)
            raise StoppedError(f"{move.pod} cannot be evicted: {error}") from None
        if not dry:
            self.evicted.append(move.pod)

    def _pod(self, key: str) -> Json | None:
        namespace, name = key.split("/")
        try:
            pod: Json = msgspec.json.decode(self._http.get(POD.path(namespace, name)))
        except NotFound:
            return None
        return pod

    # What stands

    def _done(self) -> str:
        number = len(self._plan.moves)
        moves = f"{number} move{'s' if number != 1 else ''} made"
        return f"{moves}, and {self._plan.goal}."

    def standing(self) -> list[str]:
        """After a stop: where each Pod that was evicted is, as lines."""
        lines = []
        for move in self._plan.moves:
            if move.uid in self._answer.placed:
                lines.append(f"moved: {move.pod}, now {self._answer.placed[move.uid]}")
            elif move.pod in self.evicted:
                lines.append(f"evicted, and not on {move.to}: {move.pod}")
            else:
                lines.append(f"not touched: {move.pod}")
        return lines
