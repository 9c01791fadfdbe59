"""An extender as a vendor's is: a process of its own that speaks kube-scheduler's wire format.

    python -m e2e.extender_server --port=8888 --rules='{"reject": {"n1": "n1 is full of ghosts"}}'

It answers POST to /filter, /prioritize, /preempt and /bind by its rules, and GET /calls with all
that it was asked: a list of [verb, body].
"""

import argparse
import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass
class Rules:
    """What it answers.

    Args:
        reject: nodes that it refuses, and why.
        hopeless: nodes that it refuses whoever may be evicted, and why.
        scores: of nodes, 0 to 10; others get 0.
        spare: nodes on which nobody may be evicted.
        error: what it says that it failed with, by verb.
        slow: verbs that are never answered.
    """

    reject: dict[str, str] = field(default_factory=dict)
    hopeless: dict[str, str] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    spare: list[str] = field(default_factory=list)
    error: dict[str, str] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)


class Extender:
    """The answers, by verb.

    Args:
        kubeconfig: of a user who may bind Pods; needed for that verb alone.
    """

    def __init__(self, rules: Rules, kubeconfig: str = "") -> None:
        self._rules = rules
        self._kubeconfig = kubeconfig
        self._never = threading.Event()
        self.calls: list[tuple[str, Json]] = []

    def answer(self, verb: str, args: Json) -> Any:
        """Its answer to a call."""
        self.calls.append((verb, args))
        if verb in self._rules.slow:
            self._never.wait()
        if verb in self._rules.error:
            return {"Error": self._rules.error[verb]}
        return getattr(self, f"_{verb}")(args)

    def _filter(self, args: Json) -> Json:
        refused = self._rules.reject | self._rules.hopeless
        here = set(_names(args))
        result: Json = {
            "FailedNodes": {n: why for n, why in self._rules.reject.items() if n in here},
            "FailedAndUnresolvableNodes": {
                n: why for n, why in self._rules.hopeless.items() if n in here
            },
        }
        if args.get("NodeNames") is not None:
            return result | {"NodeNames": [n for n in args["NodeNames"] if n not in refused]}
        items = [n for n in args["Nodes"]["items"] if n["metadata"]["name"] not in refused]
        return result | {"Nodes": {"items": items}}

    def _prioritize(self, args: Json) -> list[Json]:
        scores = self._rules.scores
        return [{"Host": name, "Score": scores.get(name, 0)} for name in _names(args)]

    def _preempt(self, args: Json) -> Json:
        if args.get("NodeNameToMetaVictims") is not None:
            asked = args["NodeNameToMetaVictims"]
        else:
            asked = {name: _meta(v) for name, v in args["NodeNameToVictims"].items()}
        agreed = {name: v for name, v in asked.items() if name not in self._rules.spare}
        return {"NodeNameToMetaVictims": agreed}

    def _bind(self, args: Json) -> Json:
        from kubernetes import client, config  # noqa: PLC0415  takes a second, not spent by all

        connect: Any = config.new_client_from_config
        api: Any = client.CoreV1Api(connect(self._kubeconfig))
        body = {
            "metadata": {"name": args["PodName"], "uid": args["PodUID"]},
            "target": {"kind": "Node", "name": args["Node"]},
        }
        api.create_namespaced_pod_binding(
            args["PodName"], args["PodNamespace"], body, _preload_content=False
        )
        return {}


def _names(args: Json) -> list[str]:
    if args.get("NodeNames") is not None:
        return list(args["NodeNames"])
    return [node["metadata"]["name"] for node in args["Nodes"]["items"]]


def _meta(victims: Json) -> Json:
    """Victims by uid alone, which is how they are answered."""
    pods = [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]
    return {"Pods": pods, "NumPDBViolations": victims["NumPDBViolations"]}


def handler(extender: Extender) -> type[BaseHTTPRequestHandler]:
    """The HTTP side of it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """What it was asked so far."""
            self._reply(extender.calls)

        def do_POST(self) -> None:
            """A call."""
            args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply(extender.answer(self.path.rpartition("/")[2], args))

        def _reply(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rules", default="{}", help="JSON: the fields of Rules")
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--cert", help="serve HTTPS")
    parser.add_argument("--key")
    parser.add_argument("--client-ca", help="and ask callers for a certificate of this authority")
    args = parser.parse_args()
    extender = Extender(Rules(**json.loads(args.rules)), args.kubeconfig)
    server = ThreadingHTTPServer(("127.0.0.1", args.port), handler(extender))
    server.daemon_threads = True
    if args.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=args.client_ca)
        context.load_cert_chain(args.cert, args.key)
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
