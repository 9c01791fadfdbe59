"""An HTTP extender: asked about nodes, with whole objects, and left to bind."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from e2e.cluster import OTHER, Cluster, pod
from e2e.provider import NodeSpec

pytestmark = pytest.mark.e2e


class Extender:
    """Refuses nodes labelled old, prefers the one whose name comes last, and binds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.calls: list[str] = []
        extender = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                verb = self.path.rpartition("/")[2]
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                extender.calls.append(verb)
                answer = json.dumps(getattr(extender, verb)(body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def filter(self, args):
        old = [n for n in args["Nodes"]["items"] if "old" in n["metadata"]["labels"]]
        kept = [n for n in args["Nodes"]["items"] if n not in old]
        failed = {n["metadata"]["name"]: "too old" for n in old}
        return {"nodes": {"items": kept}, "failedNodes": failed}

    def prioritize(self, args):
        names = sorted(n["metadata"]["name"] for n in args["Nodes"]["items"])
        return [{"Host": name, "Score": 10 if name == names[-1] else 0} for name in names]

    def bind(self, args):
        self.cluster.bind(args["PodName"], args["Node"])
        return {}


@pytest.fixture
def extender(cluster) -> Iterator[Extender]:
    made = Extender(cluster)
    yield made
    made.server.shutdown()
    made.server.server_close()


def settings(extender, **more):
    url = f"http://127.0.0.1:{extender.server.server_address[1]}/v1"
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind"}
    return {"urlPrefix": url, "weight": 100, "httpTimeout": "5s"} | verbs | more


def test_an_extender_filters_prioritizes_and_binds(cluster, start, extender):
    cluster.nodes(NodeSpec("a"), NodeSpec("b"), NodeSpec("c", labels={"old": ""}))
    start(cluster.config(OTHER, extenders=[settings(extender)]))
    cluster.create(pod("p", OTHER))
    assert cluster.wait_bound("p") == {"p": "b"}
    assert extender.calls == ["filter", "prioritize", "bind"]
    cluster.create(pod("q", OTHER, nodeSelector={"old": ""}))
    cluster.wait_condition("q", text="1 too old")


def test_an_extender_that_does_not_answer_costs_the_attempt_unless_it_may_be_ignored(
    cluster, start, extender
):
    away = settings(extender, urlPrefix="http://127.0.0.1:1/v1", bindVerb="")
    cluster.nodes(NodeSpec("a"))
    start(cluster.config(OTHER, extenders=[away]))
    start(cluster.config(f"{OTHER}-2", extenders=[away | {"ignorable": True}]))
    cluster.create(pod("p", OTHER), pod("q", f"{OTHER}-2"))
    cluster.wait_condition("p", "SchedulerError", "127.0.0.1")
    cluster.wait_bound("q")
