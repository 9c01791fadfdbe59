"""Starts a part, prints its pid, and waits to be killed. Argument: a folder for its files."""

import sys
import threading
from pathlib import Path

from e2e.provider.pki import Authority
from e2e.provider.process import Endpoint, Part, client_context, free_port

folder = Path(sys.argv[1])
authority = Authority(folder)
pair = authority.issue("server", "server")
port = free_port()
program = [sys.executable, str(Path(__file__).with_name("server.py"))]
endpoint = Endpoint(f"https://127.0.0.1:{port}", client_context(authority, pair))
argv = [*program, str(port), str(pair.cert), str(pair.key)]
part = Part("server", argv, folder / "log", endpoint, "/ready").start()
sys.stdout.write(f"{part.pid}\n")
sys.stdout.flush()
threading.Event().wait()
