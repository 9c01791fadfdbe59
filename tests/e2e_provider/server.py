"""A part for tests: serves `ok` over HTTPS at /ready, like any component of the control plane.

Arguments: port, certificate, key. A fourth argument makes it ignore SIGTERM.
"""

import http.server
import signal
import ssl
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()
        self.wfile.write(b"ok")


if len(sys.argv) > 4:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
