"""One HTTP port for probes and metrics: /healthz, /livez, /readyz, /metrics.

Uses the standard library's server on a separate thread: enough for a probe every few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Check = Callable[[], list[str]]
"""What is wrong, one line each; nothing when all is well."""


class PortError(Exception):
    """The port cannot be listened on; the text says why."""


class HealthServer:
    """Answers probes.

    Args:
        port: 0 picks a free one; see `port`.
        live: what is wrong with the process itself.
        ready: why it cannot do its work yet, or any more.
        metrics: the Prometheus text.

    Raises:
        PortError: the port is taken, or not ours to use.
    """

    def __init__(
        self, port: int, live: Check, ready: Check, metrics: Callable[[], bytes], host: str = ""
    ) -> None:
        pages = {"/healthz": live, "/livez": live, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._answer(200, metrics(), "text/plain; version=0.0.4; charset=utf-8")
                elif path in pages:
                    wrong = pages[path]()
                    text = "\n".join(wrong) if wrong else "ok"
                    self._answer(503 if wrong else 200, text.encode(), "text/plain")
                else:
                    self._answer(404, b"not found", "text/plain")

            def _answer(self, code: int, body: bytes, content_type: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Probes are not logged."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise PortError(f"port {port} cannot be used: {error.strerror}") from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
