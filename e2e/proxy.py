"""A TCP proxy before the API server whose connections a test can cut."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from e2e.provider.kubeconfig import current_cluster
from e2e.provider.process import free_port

CHUNK = 65536


class Proxy:
    """Forwards connections to the server of a kubeconfig, until `cut`, and again after `mend`."""

    def __init__(self, kubeconfig: Path) -> None:
        target = urlsplit(str(current_cluster(kubeconfig)["server"]))
        self._target = (target.hostname, target.port)
        self._document = kubeconfig.read_text()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._broken = False
        self._silent = False
        self.port = free_port()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def kubeconfig(self, path: Path) -> Path:
        """Write the same kubeconfig with this proxy as its server."""
        document = yaml.safe_load(self._document)
        for entry in document["clusters"]:
            entry["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path.write_text(yaml.safe_dump(document))
        return path

    def cut(self) -> None:
        """Break all connections; new ones are closed as soon as they are made."""
        with self._lock:
            self._broken, self._silent = True, False
            for connection in self._connections:
                with suppress(OSError):  # the other thread may have closed it
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def silence(self) -> None:
        """Swallow what the server says until `cut`: requests take effect, and nobody is told."""
        self._silent = True

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._broken = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with self._lock:
                if self._broken:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._connections |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            answers = source.getpeername()[:2] == self._target
            while chunk := source.recv(CHUNK):
                if not (answers and self._silent):
                    sink.sendall(chunk)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._connections.discard(source)
        source.close()
