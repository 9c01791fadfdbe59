"""Board: columns that follow a cluster, and answers to questions.

The world belongs to one thread, which ``ask`` runs a function on and waits for its result. All else
runs on the threads of whoever asks: columns are made and encoded there, once for all readers.
"""

from __future__ import annotations

import gzip
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from bayplan.api import quantity
from bayplan.api.pod import Pod
from bayplan.cache.requests import pod_requests
from bayplan.decide.deciding import deciding
from bayplan.engine.faults import AttemptFault
from bayplan.explain.explanation import gate_status
from bayplan.explain.why import Why
from bayplan.groups.placers import Placers
from bayplan.profiles import OneForAll, Profiles
from bayplan.report.records import Records
from bayplan.view.columns import LEVELS, Bays
from bayplan.view.taken import Taken, take
from bayplan.view.timeline import History
from bayplan.world import World

T = TypeVar("T")
Answer = dict[str, Any]

SECONDS = 0.5
"""Between two looks at the world."""
ASKED_SECONDS = 10.0
"""Between two looks at the columns of a scheduler, which pays for each."""
JUDGED = 100
DELTAS = 120
"""Changes that are remembered: whoever has missed more reads all columns again."""


class Ask(Protocol):
    """Runs a function on the thread that the world belongs to."""

    def __call__(self, answer: Callable[[], T]) -> T:
        """What ``answer`` returns."""


class Owned(Protocol):
    """The parts of a `bayplan.app.assembly.Core`, for use on its own thread alone."""

    @property
    def world(self) -> World: ...  # noqa: D102
    @property
    def profiles(self) -> Profiles: ...  # noqa: D102
    @property
    def placers(self) -> Placers: ...  # noqa: D102
    @property
    def records(self) -> Records: ...  # noqa: D102


class Judges(NamedTuple):
    """The same with other profiles than those of a core."""

    world: World
    profiles: Profiles
    placers: Placers
    records: Records


class RefusedError(Exception):
    """A question is not answered; the text says why, ``status`` as HTTP does."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class SaysWhy(Protocol):
    """Whoever says why a Pod or group waits: the running scheduler, or the page's own judgement."""

    def __call__(self, namespace: str, name: str, *, group: bool) -> Answer | None:
        """As `Board.why`; raises `RefusedError`."""


class Supposition(NamedTuple):
    """Another cluster than there is.

    Attributes:
        lose: label and value: without the nodes that have it.
        add: how many more nodes, and like which one.
        other: judged by the other configuration.
    """

    lose: tuple[str, str] | None = None
    add: tuple[int, str] | None = None
    other: bool = False


class Supposes(Protocol):
    """Says what would be in another cluster, as docs/view.md has it."""

    @property
    def has_other(self) -> bool:
        """Whether there is another configuration."""

    def suppose(self, what: Supposition) -> Answer:
        """What would become of waiting Pods and the Pods of lost nodes.

        Raises:
            RefusedError: there are no such nodes, or the cluster cannot be read.
        """


class Followed(Protocol):
    """A picture with changes. All may raise `RefusedError`."""

    def look(self) -> int:
        """Take in what has changed, if it is time; returns the generation."""

    def packed(self) -> bytes:
        """All columns, and their ``generation``, as gzipped JSON."""

    def since(self, generation: int) -> list[bytes] | None:
        """The deltas that come after ``generation``; None where all columns have to be read."""

    def trouble(self) -> str:
        """Why the picture may be an old one; "" while it is not."""

    def why_not(self, key: str) -> Answer | None:
        """See `Board.why_not`."""

    def node(self, name: str) -> Answer | None:
        """See `Board.node`."""


class Board:
    """See the module's docstring. Any thread.

    Args:
        core: what is asked.
        ask: how.
        levels: see `Bays`.
        clock: monotonic seconds.
        trouble: see `Followed`.
        still: whether nothing ever changes: then one look is enough, and of `JUDGED` Pods of which
            nothing was said it is said what stands against them.
        history: of the recording of which ``core`` is the first moment to `show`; None for none.
    """

    def __init__(
        self,
        core: Owned,
        ask: Ask,
        levels: Sequence[str] = LEVELS,
        clock: Callable[[], float] = time.monotonic,
        *,
        trouble: Callable[[], str] = str,
        still: bool = False,
        history: History | None = None,
    ) -> None:
        self._core, self._ask, self._clock = core, ask, clock
        self.trouble, self._still = trouble, still
        self._lock = threading.Lock()
        self._bays = Bays(levels, history=history)
        self._looked = float("-inf")
        self._generation = 0
        self._oldest = 0
        """The generation that the first of the deltas leads away from."""
        self._deltas: deque[bytes] = deque()
        self._packed: tuple[int, bytes] = -1, b""

    def look(self) -> int:
        """Take in what has changed, at most every `SECONDS`; returns the generation."""
        with self._lock:
            now = self._clock()
            if now - self._looked >= SECONDS:
                self._update(self._ask(self._take))
                self._looked = math.inf if self._still else now
            return self._generation

    def show(self, core: Owned, at: float) -> None:
        """Show another moment of the recording: ``core``, at seconds since the epoch."""
        with self._lock:
            self._core, self._looked = core, math.inf
            self._update(self._ask(self._take)._replace(at=at))

    def _take(self) -> Taken:
        core = self._core
        taken = take(core.world, core.profiles)
        if not self._still:
            return taken
        silent = [pod for pod in taken.pending if not taken.messages[pod.uid]]
        silent.sort(key=lambda pod: (-pod.priority, pod.key))
        sentences = {}
        for pod in silent[:JUDGED]:
            who = Why(core.world, core.profiles, core.placers, core.records, names=True)
            answer = who.of_pod(pod.namespace, pod.name) or {"sentence": ""}
            sentences[pod.uid] = answer["sentence"].removeprefix(f"{pod.key} ")
        return taken._replace(messages={**taken.messages, **sentences})

    def _update(self, taken: Taken) -> None:
        if self._bays.worn:
            self._bays = self._bays.renewed()
            self._generation += 1
            self._oldest = self._generation + 1
            self._deltas.clear()
        if not (delta := self._bays.update(taken)):
            return
        self._generation += 1
        self._deltas.append(msgspec.json.encode({"generation": self._generation, **delta}))
        if len(self._deltas) > DELTAS:
            self._deltas.popleft()
        self._oldest = self._generation - len(self._deltas)

    def document(self) -> Answer:
        """All columns, and their ``generation``."""
        self.look()
        with self._lock:
            return {**self._bays.document(), "generation": self._generation}

    def packed(self) -> bytes:
        """The same as gzipped JSON."""
        self.look()
        with self._lock:
            if self._packed[0] != self._generation:
                self._packed = self._generation, _packed(self._bays.document(), self._generation)
            return self._packed[1]

    def since(self, generation: int) -> list[bytes] | None:
        """The deltas that come after ``generation``; None where all columns have to be read."""
        with self._lock:
            if not self._oldest <= generation <= self._generation:
                return None
            return list(self._deltas)[generation - self._oldest :]

    # Questions

    def why(self, namespace: str, name: str, *, group: bool) -> Answer | None:
        """As the scheduler's own page ``/why``: of a Pod or a group; None where there is none."""
        core = self._core

        def answer() -> Answer | None:
            who = Why(core.world, core.profiles, core.placers, core.records, names=True)
            return who.of_group(namespace, name) if group else who.of_pod(namespace, name)

        return self._ask(answer)

    def why_not(self, key: str) -> Answer | None:
        """What stands against each node for the Pod ``key``; None where there is no such Pod.

        Returns:
            ``rejected``: plugin, reasons, number of nodes; ``node``: by row of the columns, which
                of these rejects the node, -1 for none; ``message``: what is said of the Pod.
        """
        self.look()
        verdict = self._ask(lambda: self._why_not(key))
        if verdict is None:
            return None
        answer, nodes = verdict
        with self._lock:
            rows = self._bays.node_rows
            column = [-1] * (max(rows.values(), default=-1) + 1)
            for number, names in enumerate(nodes):
                for name in names:
                    if name in rows:
                        column[rows[name]] = number
        return answer | {"node": column}

    def _why_not(self, key: str) -> tuple[Answer, list[list[str]]] | None:
        """The answer, and by rejection the names of nodes."""
        core = self._core
        pod = core.world.handlers.pods.get(key)
        if pod is None:
            return None
        framework = OneForAll(core.profiles.frameworks, core.profiles.policy)[
            pod.spec.scheduler_name
        ]
        answer: Answer = {"pod": key, "profile": framework.name, "rejected": []}
        gate = gate_status(framework, pod)
        if gate is not None:
            return answer | {"message": f"{gate.plugin}: {gate.message}"}, []
        try:
            with deciding(core.placers, framework, pod, detailed=True) as decision:
                diagnosis = decision.detail.diagnosis if decision.detail else None
                if decision.placement is None and decision.rejection is not None:
                    diagnosis = decision.rejection.diagnosis
                    answer["message"] = decision.rejection.message
        except AttemptFault as fault:
            return answer | {"message": str(fault)}, []
        nodes: list[list[str]] = []
        groups = [] if diagnosis is None else diagnosis.groups()
        for status, rows in sorted(groups, key=lambda group: -len(group[1])):
            one = {"plugin": status.plugin, "reasons": list(status.reasons), "nodes": len(rows)}
            answer["rejected"].append(one)
            assert diagnosis is not None
            nodes.append([name for row in rows.tolist() if (name := diagnosis.nodes.names[row])])
        return answer, nodes

    def node(self, name: str) -> Answer | None:
        """The Pods of a node, with what they request; None where there is no such node."""
        return self._ask(lambda: self._node(name))

    def _node(self, name: str) -> Answer | None:
        table = self._core.world.cache.nodes
        row = table.row(name)
        if row is None:
            return None
        pods = sorted(table.pods[row].values(), key=lambda pod: pod.key)
        return {"node": name, "pods": [_on_node(pod) for pod in pods]}


class AskedBoard:
    """The columns of the running scheduler, for whoever may not list nodes and all Pods.

    They are asked for again from time to time; whatever changes, all of them are read anew.

    Args:
        get: an answer of the scheduler's port; raises `RefusedError`.
        namespace: the one that is shown by name.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        get: Callable[[str], bytes],
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get, self._clock = get, clock
        self._path = f"/bays?{urlencode({'namespace': namespace})}"
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._generation, self._document, self._packed = 0, b"", b""
        self._trouble = ""

    def look(self) -> int:
        """See `Followed`; while the scheduler does not answer, what it said last stands."""
        with self._lock:
            if self._clock() - self._looked >= ASKED_SECONDS:
                try:
                    self._take(self._get(self._path))
                    self._trouble = ""
                except RefusedError as error:
                    if not self._document:
                        raise
                    self._trouble = str(error)
                self._looked = self._clock()
            return self._generation

    def _take(self, document: bytes) -> None:
        if document != self._document:
            self._document, self._generation = document, self._generation + 1
            self._packed = _packed(msgspec.json.decode(document), self._generation)

    def packed(self) -> bytes:
        """See `Followed`."""
        self.look()
        return self._packed

    def since(self, generation: int) -> list[bytes] | None:
        """See `Followed`."""
        return [] if generation == self._generation else None

    def trouble(self) -> str:
        """See `Followed`."""
        return self._trouble

    def why_not(self, _: str) -> Answer | None:
        """Nodes have no names here."""
        raise RefusedError(403, "only for those who may list nodes and all Pods")

    node = why_not


def _packed(document: Answer, generation: int) -> bytes:
    data = msgspec.json.encode({**document, "generation": generation})
    return gzip.compress(data, 6, mtime=0)


def _on_node(pod: Pod) -> Mapping[str, Any]:
    amounts = {name: n for name, n in sorted(pod_requests(pod).amounts.items()) if n}
    return {
        "pod": pod.key,
        "priority": pod.priority,
        "terminating": pod.deleted is not None,
        "requests": {name: quantity.shown(name, amount) for name, amount in amounts.items()},
    }
