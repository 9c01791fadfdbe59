"""The benchmark's own client of the API server: objects made in bulk, and Pods seen getting nodes.

Its cost is the same for every scheduler and small: writes go over one HTTP/2 connection, and the
watch asks for metadata only, of Pods that have a node.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable

import msgspec
import pycurl

from bayplan.api.kinds import POD
from bayplan.client.connection import JSON, MERGE_PATCH, Connection
from bayplan.client.dispatcher import Dispatcher
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.http import Http
from bayplan.client.lanes import Lanes
from bayplan.client.request import ApiOutcome, ApiRequest, Lane
from bayplan.informers.decode import Lines
from bench.objects import Item

IN_FLIGHT = 64
AHEAD = 2000
"""Requests handed to the dispatcher before an answer is awaited: what bounds memory."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
HAS_NODE = "fieldSelector=spec.nodeName%21%3D"
HTTP_OK = 200
BUFFER_BYTES = 512 * 1024
_NAME = re.compile(rb'"name":"([^"]+)"')
_VERSION = re.compile(rb'"resourceVersion":"([^"]+)"')


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    remaining_item_count: int = 0


class _Page(msgspec.Struct):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


class BulkClient:
    """Creates and deletes many objects; for one thread at a time.

    Args:
        ahead: requests handed over before an answer is awaited.

    Attributes:
        errors: what the API server refused.
    """

    def __init__(self, connection: Connection, ahead: int = AHEAD) -> None:
        self.http = Http(connection)
        self.errors: list[ApiError] = []
        self._dispatcher = Dispatcher(connection, Lanes(max_in_flight=IN_FLIGHT))
        self._dispatcher.start()
        self._room = threading.Semaphore(ahead)
        self._done = threading.Condition()
        self._pending = 0

    def create(self, item: Item) -> None:
        """Create the object, some time soon."""
        self._submit("POST", item.path, item.body)

    def delete(self, path: str) -> None:
        """Delete the object at once, some time soon; one that is gone is fine."""
        self._submit("DELETE", f"{path}?gracePeriodSeconds=0", None)

    def merge(self, path: str, change: object) -> None:
        """Lay a change over the object at ``path``, some time soon."""
        self._submit("PATCH", path, msgspec.json.encode(change), MERGE_PATCH)

    def create_all(self, items: Iterable[Item], advance: Callable[[int], object]) -> None:
        """Create the objects and wait for the last one; ``advance`` is told of progress.

        Raises:
            ApiError: the first thing that the API server refused.
        """
        for number, item in enumerate(items, 1):
            self.create(item)
            if number % 200 == 0:
                advance(200)
        self.wait()

    def put_statuses(self, items: Iterable[Item]) -> None:
        """Write the statuses of objects that are there, and wait: a creation leaves them empty.

        Raises:
            ApiError: the first thing that the API server refused.
        """
        for item in items:
            body = msgspec.json.decode(item.body)
            body["metadata"].pop("uid", None)  # The API server has given it another one.
            path = f"{item.path}/{item.name}/status"
            self._submit("PUT", path, msgspec.json.encode(body))
        self.wait()

    def wait(self) -> None:
        """Wait until nothing is under way.

        Raises:
            ApiError: the first thing that the API server refused.
        """
        with self._done:
            self._done.wait_for(lambda: self._pending == 0)
        if self.errors:
            raise self.errors[0]

    def count(self, path: str) -> int:
        """How many objects a collection has."""
        page = self._first_page(path)
        return len(page.items or ()) + page.metadata.remaining_item_count

    def version(self) -> str:
        """The resource version of now."""
        return self._first_page(POD.path()).metadata.resource_version

    def _first_page(self, path: str) -> _Page:
        return msgspec.json.decode(self.http.get(f"{path}?limit=1"), type=_Page)

    def close(self) -> None:
        """End."""
        self._dispatcher.close(1.0)

    def _submit(self, method: str, path: str, body: bytes | None, content: str = JSON) -> None:
        self._room.acquire()
        with self._done:
            self._pending += 1
        self._dispatcher.submit(
            ApiRequest(
                *(method, path, self._finished, body, Lane.BIND, content),
                idempotent=method != "POST",
            )
        )

    def _finished(self, outcome: ApiOutcome) -> None:
        self._room.release()
        with self._done:
            self._pending -= 1
            if isinstance(outcome, ApiError) and not isinstance(outcome, NotFound):
                self.errors.append(outcome)
            if self._pending == 0:
                self._done.notify_all()


class PodWatch:
    """Follows the Pods that have a node, in a thread of its own.

    Args:
        note: takes in one event of the watch, as JSON, and the `time.monotonic` when it came.
        accept: in which representation.

    Attributes:
        broken: why the watch has ended; "" while it has not.
    """

    def __init__(
        self,
        connection: Connection,
        version: str,
        note: Callable[[bytes, float], object],
        accept: str = JSON,
    ) -> None:
        self.broken = ""
        self._note = note
        self._connection = connection
        self._version = version
        self._lines = Lines()
        self._stopping = False
        self._handle = handle = connection.handle()
        headers = [h for h in connection.headers() if not h.startswith("Accept:")]
        handle.setopt(pycurl.HTTPHEADER, [*headers, f"Accept: {accept}"])
        handle.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
        handle.setopt(pycurl.WRITEFUNCTION, self._receive)
        handle.setopt(pycurl.NOPROGRESS, False)
        handle.setopt(pycurl.XFERINFOFUNCTION, lambda *_: self._stopping)
        self._thread = threading.Thread(target=self._run, name="bound-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End within about a second."""
        self._stopping = True
        self._thread.join()
        self._handle.close()

    def _run(self) -> None:
        while not self._stopping and not self.broken:
            self._watch()

    def _watch(self) -> None:
        """One watch, from where the last one ended: the API server may end one that falls back."""
        path = f"{POD.path()}?watch=1&resourceVersion={self._version}&{HAS_NODE}"
        self._handle.setopt(pycurl.URL, self._connection.url(path))
        self._lines = Lines()
        try:
            self._handle.perform()
        except pycurl.error as error:
            if not self._stopping:
                self.broken = str(error)
        else:
            status = self._handle.getinfo(pycurl.RESPONSE_CODE)
            if status != HTTP_OK:
                self.broken = f"the API server answers {status}"

    def _receive(self, chunk: bytes) -> None:
        now = time.monotonic()
        for line in self._lines.feed(chunk):
            version = _VERSION.search(line)
            if version is not None:
                self._version = version[1].decode()
            if line.startswith(b'{"type":"ERROR"'):
                self.broken = line.decode(errors="replace")
            else:
                self._note(line, now)


class BoundWatch(PodWatch):
    """Notes when each Pod whose name begins with ``prefix`` is seen with a node.

    Attributes:
        times: `time.monotonic` of the first sight, by the name of the Pod, in order; may be read
            from any thread.
    """

    def __init__(
        self,
        connection: Connection,
        version: str,
        prefix: str,
        on_first: Callable[[], object] = lambda: None,
    ) -> None:
        self.times: dict[str, float] = {}
        self._prefix = prefix.encode()
        self._on_first = on_first
        super().__init__(connection, version, self._bound, METADATA_ONLY)

    def _bound(self, line: bytes, now: float) -> None:
        if not line.startswith(b'{"type":"ADDED"'):
            return
        name = _NAME.search(line)
        if name is None or not name[1].startswith(self._prefix):
            return
        if not self.times:
            self._on_first()
        self.times.setdefault(name[1].decode(), now)
