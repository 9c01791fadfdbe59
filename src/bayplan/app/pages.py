"""Pages: what the port shows of one process.

| path | |
|---|---|
| ``/healthz``, ``/livez``, ``/readyz`` | see `bayplan.app.process` |
| ``/metrics`` | Prometheus text |
| ``/configz`` | the configuration that decides now, as kube-scheduler shows its own |
| ``/debug/flags/v`` | the log level; PUT changes it |
| ``/debug/profile`` | samples of all threads' stacks |
| ``/debug/dump`` | what SIGUSR2 logs |
| ``/why?namespace=&pod=`` | why a Pod waits, or what became of it: `bayplan.explain.why` |
| ``/why?namespace=&group=`` | the same of a group |
| ``/why?...&verdict=whole`` | with each node's answer, as `bayplan.explain.explanation` has it |
| ``/plan`` | POST: what would become of Pods that are not there yet: `bayplan.explain.plan` |
| ``/plan?namespace=`` | GET: what would become of those that wait |
| ``/status?namespace=`` | how the process is, and what waits: `bayplan.app.status` |
| ``/bays?namespace=`` | nodes, Pods and Queues as columns: `bayplan.view.columns` |
| ``/improve`` | POST: the fewest moves of Pods so that a goal holds: `bayplan.improve.asked` |
| ``/queues?namespace=`` | what each Queue has and is entitled to: `bayplan.explain.queues` |

``/debug`` is there while the configuration has ``enableProfiling``, the default. ``/why`` is for
everybody who may get that Pod, or list Pods there, POST of ``/plan`` for who may create Pods there,
``/improve`` for who may list nodes and all Pods,
the others for who may list Pods there; nodes, and Pods of others, are named to those who may list
nodes (without POST: nodes and all Pods).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any

import msgspec
import structlog

from bayplan.support import logs
from bayplan.app.assembly import Core
from bayplan.app.debugger import Debugger
from bayplan.app.kept_answers import KeptAnswers
from bayplan.app.questions import BusyError, Questions
from bayplan.app.status import Status
from bayplan.config import EffectiveConfig, config_document
from bayplan.server.pages import (
    HTML,
    JSON,
    TEXT,
    Answer,
    Attributes,
    Page,
    PageRequest,
    Pages,
    text,
)
from bayplan.telemetry import profile

log = structlog.get_logger("port")

Check = Callable[[], list[str]]
"""What is wrong, one line each; nothing when all is well."""

METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON_LINES = "application/jsonl"
PROFILE_SECONDS = 10.0
LONGEST_PROFILE = 60.0
DUMP_SECONDS = 30.0
"""How long a dump may wait for the scheduling thread."""
HIDDEN = "<not shown>"
"""In place of private keys."""
_TYPES = {"text": TEXT, "html": HTML, "speedscope": JSON}


def probes(live: Check, ready: Check, metrics: Callable[[], bytes]) -> Pages:
    """What may be read without TLS, too."""

    def health(check: Check) -> Page:
        return Page(lambda _: _health(check()))

    return {
        "/healthz": health(live),
        "/livez": health(live),
        "/readyz": health(ready),
        "/metrics": Page(lambda _: Answer(200, metrics(), METRICS)),
    }


def _health(wrong: list[str]) -> Answer:
    return Answer(503 if wrong else 200, "\n".join(wrong or ["ok"]).encode())


def debug_pages(config: Callable[[], EffectiveConfig], debugger: Debugger) -> Pages:
    """The pages for those who look into the process, whose present configuration is ``config``."""
    profiles = Profiler()

    def while_enabled(answer: Callable[[PageRequest], Answer], *methods: str) -> Page:
        def answered(request: PageRequest) -> Answer:
            if not config().settings.enable_profiling:
                return text(404, "enableProfiling is false in the configuration")
            return answer(request)

        return Page(answered, methods or ("GET",))

    return {
        "/configz": Page(lambda _: _configz(config())),
        "/debug/flags/v": while_enabled(_verbosity, "GET", "PUT"),
        "/debug/profile": while_enabled(profiles.answer),
        "/debug/dump": while_enabled(lambda _: _dump(debugger)),
    }


def _configz(config: EffectiveConfig) -> Answer:
    document = config_document(config)
    for extender in document["extenders"]:
        tls = extender.get("tlsConfig", {})
        if tls.get("keyData"):
            tls["keyData"] = HIDDEN
    return Answer(200, msgspec.json.encode({"componentconfig": document}), JSON)


def _verbosity(request: PageRequest) -> Answer:
    if request.method == "GET":
        return text(200, str(logs.verbosity()))
    try:
        level = logs.parse_verbosity(request.body.decode().strip())
    except ValueError as error:
        return text(400, f"the log level {error}")
    log.info("Log level", was=logs.verbosity(), becomes=level)
    logs.set_verbosity(level)
    return text(200, f"the log level is {level}")


class Profiler:
    """Takes one profile at a time."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def answer(self, request: PageRequest) -> Answer:
        """Sample for ``seconds``, and show it as the ``format`` says."""
        form = request.query.get("format", "text")
        if form not in profile.FORMATS:
            return text(400, f"format must be one of {', '.join(profile.FORMATS)}")
        try:
            seconds = float(request.query.get("seconds", PROFILE_SECONDS))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= LONGEST_PROFILE:
            return text(400, f"seconds must be a number above 0, at most {LONGEST_PROFILE:.0f}")
        if not self._busy.acquire(blocking=False):
            return text(429, "another profile is being taken")
        try:
            session = profile.sample(seconds)
        finally:
            self._busy.release()
        return Answer(200, profile.render(session, form).encode(), _TYPES[form])


def _dump(debugger: Debugger) -> Answer:
    try:
        lines = debugger.report(DUMP_SECONDS)
    except FutureTimeoutError:
        return text(503, f"the scheduling thread did not answer in {DUMP_SECONDS:.0f} s")
    encode = msgspec.json.Encoder(enc_hook=str).encode
    body = b"".join(encode({"msg": line.event, **line.fields}) + b"\n" for line in lines)
    return Answer(200, body, JSON_LINES)


def status_page(status: Status) -> Page:
    """How this process is."""

    def answered(request: PageRequest) -> Answer:
        only = _scope(request)
        if isinstance(only, Answer):
            return only
        return Answer(200, msgspec.json.encode(status.answer(only)), JSON)

    return Page(answered, asks=True)


def _scope(request: PageRequest) -> str | Answer:
    """The namespace that the reader may know of, "" for all; or what to answer."""
    namespace = request.query.get("namespace", "")
    if _may_all(request):
        return ""
    if not namespace:
        return text(403, "forbidden: may not list nodes and all pods; namespace is needed")
    if not request.may(Attributes("list", "pods", namespace)):
        return text(403, f"forbidden: may not list pods in the namespace {namespace}")
    return namespace


def _may_all(request: PageRequest) -> bool:
    return all(map(request.may, (Attributes("list", "nodes"), Attributes("list", "pods"))))


def answer_pages(core: Core, questions: Questions, leader: Callable[[], str]) -> Pages:
    """The pages that the scheduling thread answers; ``leader`` names who leads, "" for nobody."""
    answers = _Answers(core, questions, leader)

    def page(answer: Callable[[PageRequest], Answer], *methods: str) -> Page:
        def answered(request: PageRequest) -> Answer:
            try:
                return answer(request)
            except BusyError as error:
                return Answer(429, f"{error}\n".encode(), retry_after=math.ceil(error.seconds))

        return Page(answered, methods or ("GET",), asks=True)

    return {
        "/why": page(answers.why),
        "/plan": page(answers.plan, "GET", "POST"),
        "/improve": page(answers.improve, "POST"),
        "/bays": page(answers.bays),
        "/queues": page(answers.queues),
    }


class _Answers:
    """All may raise BusyError; what they need is loaded when somebody asks.

    Whoever is refused for that is refused before the API server is asked what they may see.
    """

    def __init__(self, core: Core, questions: Questions, leader: Callable[[], str]) -> None:
        self._core, self._questions, self._leader = core, questions, leader
        self._kept = KeptAnswers(lambda: core.scheduler.generation)

    def why(self, request: PageRequest) -> Answer:
        from bayplan.explain.why import Why  # noqa: PLC0415

        query = request.query
        namespace, pod, group = (query.get(what, "") for what in ("namespace", "pod", "group"))
        if not namespace or bool(pod) == bool(group):
            return text(400, "namespace, and pod or group, are needed")
        whole = query.get("verdict", "") == "whole"
        question = namespace, pod, group
        if whole or not any(self._kept.get((*question, names)) for names in (True, False)):
            self._questions.check()
        # Whoever asks about a group learns of its Pods.
        wanted = Attributes("get" if pod else "list", "pods", namespace, pod)
        if not request.may(wanted):
            what = f"{wanted.verb} pods{pod and '/'}{pod} in the namespace {namespace}"
            return text(403, f"forbidden: may not {what}")
        core, names = self._core, request.may(Attributes("list", "nodes"))
        if whole and not names:
            return text(403, "forbidden: may not list nodes; why answers without their names")

        def answered() -> dict[str, Any] | None:
            parts = core.world, core.profiles, core.placers, core.records
            who = Why(*parts, names=names, whole=whole)
            return who.of_pod(namespace, pod) if pod else who.of_group(namespace, group)

        answer = self._asked(answered, names=names, keep=None if whole else (*question, names))
        if answer is not None:
            return answer
        if group:
            return text(404, f"there is no Pod of a group {namespace}/{group}")
        return text(404, f"there is no Pod {namespace}/{pod}, and no attempt is remembered")

    def plan(self, request: PageRequest) -> Answer:
        from bayplan.explain import plan as planning  # noqa: PLC0415

        self._questions.check()
        core = self._core
        if request.method == "GET":
            only = _scope(request)
            if isinstance(only, Answer):
                return only
            plan = partial(planning.plan_waiting, core.world, core.profiles, core.placers)
            answer = self._asked(lambda: plan(names=not only, only=only), names=not only)
            assert answer is not None
            return answer
        try:
            objects = planning.decoded(request.body)
            for namespace in sorted({obj.key.partition("/")[0] for _, obj in objects}):
                if not request.may(Attributes("create", "pods", namespace)):
                    return text(403, f"forbidden: may not create pods in {namespace}")
            names = request.may(Attributes("list", "nodes"))
            parts = core.world, core.profiles, core.placers, objects
            answer = self._asked(lambda: planning.plan(*parts, names=names), names=names)
        except planning.PlanError as error:
            return text(422, str(error))
        assert answer is not None
        return answer

    def improve(self, request: PageRequest) -> Answer:
        from bayplan.improve.asked import LIVE_SECONDS, Asked  # noqa: PLC0415
        from bayplan.improve.goals import GoalError  # noqa: PLC0415

        self._questions.check()
        if not _may_all(request):
            return text(403, "forbidden: may not list nodes and all pods, which moves are about")
        try:
            asked = msgspec.json.decode(request.body, type=Asked)
        except msgspec.DecodeError as error:
            return text(400, f"this is no question: {error}")
        asked = msgspec.structs.replace(asked, seconds=min(asked.seconds, LIVE_SECONDS))
        try:
            answer = self._asked(lambda: asked.answer(self._core, time.time()), names=True)
        except GoalError as error:
            return text(422, str(error))
        assert answer is not None
        return answer

    def bays(self, request: PageRequest) -> Answer:
        from bayplan.view.columns import Bays  # noqa: PLC0415
        from bayplan.view.taken import take  # noqa: PLC0415

        self._questions.check()
        namespace, core = _scope(request), self._core
        if isinstance(namespace, Answer):
            return namespace
        taken = self._questions.ask(lambda: take(core.world, core.profiles, namespace))
        began = time.thread_time()
        bays = Bays(named=not namespace)
        bays.update(taken)
        body = msgspec.json.encode(bays.document())
        self._questions.charge(time.thread_time() - began)
        return Answer(200, body, JSON)

    def queues(self, request: PageRequest) -> Answer:
        from bayplan.explain.queues import answer  # noqa: PLC0415

        self._questions.check()
        namespace, core = _scope(request), self._core
        if isinstance(namespace, Answer):
            return namespace
        asked = self._asked(
            lambda: answer(core.world, core.profiles, time.time(), namespace), names=not namespace
        )
        assert asked is not None
        return asked

    def _asked(
        self,
        question: Callable[[], dict[str, Any] | None],
        *,
        names: bool,
        keep: Hashable = None,
    ) -> Answer | None:
        """What the scheduling thread says, or has said; None where it has nothing to say.

        Args:
            question: asked on that thread.
            names: whether the leader may be named.
            keep: equal for questions that have the same answer; None for none.
        """
        if keep is not None and (body := self._kept.get(keep)) is not None:
            return Answer(200, body, JSON)
        scheduler = self._core.scheduler
        answer, generation = self._questions.ask(lambda: (question(), scheduler.generation))
        if answer is None:
            return None
        if not scheduler.active:
            answer |= {"leads": False} | ({"leader": self._leader()} if names else {})
        body = msgspec.json.encode(answer)
        if keep is not None:
            self._kept.put(keep, generation, body)
        return Answer(200, body, JSON)
