"""The pages of a process: configuration, log level, profile, dump."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.app.test_debugger import Lists, debugged
from tests.core_harness import Cluster
from tests.waiting import SOON

from bayplan.support import logs
from bayplan.app import pages as pages_module
from bayplan.app.debugger import Debugger
from bayplan.app.pages import debug_pages, probes
from bayplan.config import EffectiveConfig, default_configuration, resolve_config
from bayplan.config.types import Extender
from bayplan.engine.registry import Registry
from bayplan.server.pages import Answer, PageRequest
from bayplan.telemetry import profile

WRONG = ["Pod: not listed yet", "Node: forbidden"]


def effective(**fields: Any) -> EffectiveConfig:
    config = resolve_config(default_configuration("bayplan"), Registry().known)
    return replace(config, settings=config.settings.model_copy(update=fields))


class Process:
    """The pages of a scheduler whose thread takes in what is posted."""

    def __init__(self) -> None:
        self.config = effective()
        self.cluster, self.debugger = debugged(Lists(["n1", "n2"], {"a": "a", "b": "b"}))
        self._pages = debug_pages(lambda: self.config, self.debugger)

    def get(self, path: str, **query: str) -> Answer:
        return self._pages[path].answer(PageRequest("GET", path, query, b""))

    def put(self, path: str, body: bytes) -> Answer:
        page = self._pages[path]
        assert "PUT" in page.methods
        return page.answer(PageRequest("PUT", path, {}, body))


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture(autouse=True)
def _level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log level is as it was, afterwards."""
    monkeypatch.setattr(logs, "_level", logs.VERBOSITY)


@pytest.mark.parametrize(
    ("path", "wrong", "expected"),
    [
        pytest.param("/livez", [], Answer(200, b"ok"), id="alive"),
        pytest.param("/healthz", WRONG[:1], Answer(503, WRONG[0].encode()), id="not alive"),
        pytest.param("/readyz", WRONG, Answer(503, "\n".join(WRONG).encode()), id="not ready"),
    ],
)
def test_a_probe_says_ok_or_all_that_is_wrong(
    path: str, wrong: list[str], expected: Answer
) -> None:
    live, ready = (list, lambda: wrong) if path == "/readyz" else (lambda: wrong, list)
    page = probes(live, ready, lambda: b"up 1\n")[path]
    assert page.answer(PageRequest("GET", path, {}, b"")) == expected


def test_metrics_are_in_the_prometheus_format() -> None:
    page = probes(list, list, lambda: b"up 1\n")["/metrics"]
    assert page.answer(PageRequest("GET", "/metrics", {}, b"")) == Answer(
        200,
        b"up 1\n",
        "text/plain; version=0.0.4; charset=utf-8",
    )


def test_configz_shows_the_configuration_that_decides_now(process: Process) -> None:
    def shown() -> Any:
        answer = process.get("/configz")
        assert answer.content_type == "application/json"
        return json.loads(answer.body)["componentconfig"]

    assert shown()["kind"] == "KubeSchedulerConfiguration"
    assert shown()["profiles"][0]["schedulerName"] == "bayplan"
    process.config = effective(pod_max_backoff_seconds=77)
    assert shown()["podMaxBackoffSeconds"] == 77


def test_configz_shows_no_private_key(process: Process) -> None:
    certificate, key = (b64encode(text).decode() for text in (b"certificate", b"secret"))
    tls = {"certData": certificate, "keyData": key}
    documents = [{"urlPrefix": "https://a", "tlsConfig": tls}, {"urlPrefix": "https://b"}]
    extenders = tuple(Extender.model_validate(one) for one in documents)
    process.config = effective(extenders=extenders)
    shown = json.loads(process.get("/configz").body)["componentconfig"]["extenders"]
    assert shown[0]["tlsConfig"]["keyData"] == "<not shown>"
    assert shown[0]["tlsConfig"]["certData"] == certificate
    assert shown[1]["urlPrefix"] == "https://b"


def test_the_log_level_is_changed_while_the_process_runs(process: Process) -> None:
    assert process.get("/debug/flags/v").body == b"0\n"
    assert process.put("/debug/flags/v", b" 5\n").body == b"the log level is 5\n"
    assert logs.enabled(5)
    assert process.get("/debug/flags/v").body == b"5\n"


@pytest.mark.parametrize("level", [b"11", b"-1", b"lots", b"", b"\xff"])
def test_what_is_no_log_level_is_refused(process: Process, level: bytes) -> None:
    answer = process.put("/debug/flags/v", level)
    assert (answer.status, logs.verbosity()) == (400, 0)


def test_debug_pages_are_gone_while_profiling_is_off(process: Process) -> None:
    process.config = effective(enable_profiling=False)
    for path in ("/debug/flags/v", "/debug/profile", "/debug/dump"):
        assert process.get(path).status == 404
    assert process.get("/configz").status == 200


@pytest.fixture
def scheduling(process: Process) -> Iterator[None]:
    """Another thread takes in what is posted."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            process.cluster.scheduler.take_in(wait=True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    process.debugger.start()
    thread.join()


@pytest.mark.usefixtures("scheduling")
def test_a_dump_has_the_lines_that_are_logged(process: Process) -> None:
    answer = process.get("/debug/dump")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    said = [line["msg"] for line in lines]
    assert said == [
        "Node in cache",
        "Node in cache",
        "Pod in queue",
        "Recount",
        "Comparison with the API server",
    ]
    assert lines[0] == {"msg": "Node in cache", "node": "n1", "row": 0, "pods": ["default/a"]}
    assert lines[-1]["missing nodes"] == []


@pytest.mark.usefixtures("scheduling")
def test_a_dump_without_the_api_server_says_so(process: Process) -> None:
    process.debugger._http.nodes = None  # type: ignore[attr-defined]
    last = json.loads(process.get("/debug/dump").body.splitlines()[-1])
    assert last == {"msg": "Comparison with the API server failed", "error": "unreachable"}


def test_a_dump_does_not_wait_for_ever(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "DUMP_SECONDS", 0.0)
    answer = process.get("/debug/dump")
    assert (answer.status, answer.body) == (
        503,
        b"the scheduling thread did not answer in 0 s\n",
    )


def test_a_dump_that_breaks_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    debugger = Debugger(cluster.core, Lists([], {}), cluster.inbox)  # type: ignore[arg-type]

    def breaks() -> None:
        raise LookupError("no such row")

    monkeypatch.setattr(debugger, "recount", breaks)
    timer = threading.Thread(target=lambda: cluster.scheduler.take_in(wait=True))
    timer.start()
    with pytest.raises(LookupError, match="no such row"):
        debugger.report(20)
    timer.join()


@pytest.mark.parametrize(
    "query",
    [
        {"seconds": "0"},
        {"seconds": "-1"},
        {"seconds": "61"},
        {"seconds": "long"},
        {"seconds": "nan"},
        {"format": "pprof"},
    ],
    ids=str,
)
def test_a_profile_that_cannot_be_taken_is_refused(process: Process, query: dict[str, str]) -> None:
    assert process.get("/debug/profile", **query).status == 400


def test_one_profile_at_a_time(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def sample(_: float) -> None:
        begun.set()
        go_on.wait(SOON)

    monkeypatch.setattr(profile, "sample", sample)
    monkeypatch.setattr(profile, "render", lambda _, form: form)
    answers: list[Answer] = []
    first = threading.Thread(target=lambda: answers.append(process.get("/debug/profile")))
    first.start()
    assert begun.wait(SOON)
    assert process.get("/debug/profile").status == 429
    go_on.set()
    first.join()
    assert answers == [Answer(200, b"text")]
    assert process.get("/debug/profile", format="speedscope").content_type == "application/json"
