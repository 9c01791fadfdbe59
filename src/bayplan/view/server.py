"""Server: the page over HTTP, on a loopback address.

| path | |
|---|---|
| ``/`` and ``/static/`` | the page; these files say nothing of the cluster and need no cookie |
| ``POST /session`` | the token in exchange for the cookie |
| ``/bays`` | all columns, gzipped (`bayplan.view.columns`) |
| ``/changes?since=G`` | server-sent events: deltas, or ``reset``; ``trouble`` (docs/view.md) |
| ``/why?namespace=&pod=`` or ``&group=`` | as on the scheduler's port (docs/why.md) |
| ``/why-not?pod=NS/NAME`` | what stands against each node |
| ``/node?name=`` | the Pods of a node |
| ``/plan`` | what would become of all that waits: of the scheduler, else as ``/suppose`` |
| ``/suppose?label=&value=&number=&like=&other=`` | what would be without the nodes that have this
value of a label, with more nodes like one, by configuration B |
| ``/moves`` | what a plan of moves does |
| ``POST /moment?at=`` | another moment of the recording is shown, in seconds since the epoch |
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bayplan.view.board import (
    SECONDS,
    Answer,
    Followed,
    RefusedError,
    SaysWhy,
    Supposes,
    Supposition,
)
from bayplan.view.files import INDEX, TYPES, files
from bayplan.view.session import HEADERS, Session

MOST_ADDED = 1000
"""Nodes that the page may add at once."""
LONGEST_BODY = 1024
"""Bytes of a POST: a token."""
PAGES_OPEN = 100
"""Connections at once; more are told to come later (503)."""
_TIME = re.compile(r"\d{1,12}(\.\d{1,6})?")
_GZIP = 31
"""For zlib: a gzip header, and the largest window."""
KEEP_ALIVE_SECONDS = 15.0
"""After so long without a change a stream says that it is still there."""


def application(
    board: Followed,
    session: Session,
    why: SaysWhy,
    source: str,
    supposes: Supposes | None = None,
    plan: Callable[[], Answer] | None = None,
    turn: Callable[[float], None] | None = None,
    moves: Callable[[], Answer] | None = None,
) -> ASGIApp:
    """The page.

    Args:
        board: what is shown.
        session: who may look.
        why: who says why a Pod waits.
        source: in words, where the picture comes from and who answers.
        supposes: who says what would be in another cluster; None where nobody does.
        plan: says what would become of all that waits, as ``/plan`` of the scheduler's port; None
            where only ``supposes`` can.
        turn: shows another moment of a recording, may raise `RefusedError`; None where there is
            one moment.
        moves: says what a plan of moves does; None without a plan.
    """
    answers = _Answers(board, session, why, source, supposes, plan, turn, moves)
    static_files = files()

    def static(request: Request) -> Response:
        file = static_files.get(request.path_params.get("name", INDEX))
        if file is None:
            raise HTTPException(404)
        return Response(file.read_bytes(), media_type=TYPES[file.suffix])

    app = Starlette(
        routes=[
            Route("/", static),
            Route("/static/{name}", static),
            Route("/session", answers.session, methods=["POST"]),
            Route("/bays", answers.bays),
            Route("/changes", answers.changes),
            Route("/why", answers.why),
            Route("/why-not", answers.why_not),
            Route("/node", answers.node),
            Route("/plan", answers.plan),
            Route("/suppose", answers.suppose),
            Route("/moves", answers.moves),
            Route("/moment", answers.moment, methods=["POST"]),
        ]
    )
    return _Guard(app, session)


class _Guard:
    """Lets in whom `Session` knows, and puts `HEADERS` on every answer."""

    def __init__(self, app: ASGIApp, session: Session) -> None:
        self._app, self._session = app, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        request = Request(scope)
        refusal: Response | None = None
        if why := self._session.refusal(request.headers):
            refusal = PlainTextResponse(f"{why}\n", 403)
        elif not _is_open(request.url.path):
            cookie = request.cookies.get(self._session.cookie_name)
            if not self._session.knows(cookie):
                text = "open the address that bayplan view has printed\n"
                refusal = PlainTextResponse(text, 401)
        await (refusal or self._app)(scope, receive, guarded)


def _is_open(path: str) -> bool:
    return path in ("/", "/session") or path.startswith("/static/")


class _Answers:
    def __init__(
        self,
        board: Followed,
        session: Session,
        why: SaysWhy,
        source: str,
        supposes: Supposes | None,
        plan: Callable[[], Answer] | None,
        turn: Callable[[float], None] | None,
        moves: Callable[[], Answer] | None,
    ) -> None:
        self._board, self._session, self._why, self._source = board, session, why, source
        self._supposes, self._supposing, self._plan = supposes, threading.Lock(), plan
        self._turn, self._moves = turn, moves

    async def session(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LONGEST_BODY:
                raise HTTPException(413)
        cookie = self._session.exchange(body.decode("utf-8", "replace"))
        if cookie is None:
            return PlainTextResponse("the address is used already, or wrong\n", 403)
        response = Response(status_code=204)
        response.set_cookie(self._session.cookie_name, cookie, httponly=True, samesite="strict")
        return response

    async def bays(self, _: Request) -> Response:
        data = await run_in_threadpool(self._board.packed)
        headers = {"content-encoding": "gzip", "x-bayplan-source": quote(self._source)}
        supposes = self._supposes
        can = "no" if supposes is None else "configurations" if supposes.has_other else "nodes"
        headers["x-bayplan-supposes"] = can
        headers["x-bayplan-plans"] = "no" if self._plan is None and supposes is None else "yes"
        headers["x-bayplan-moves"] = "no" if self._moves is None else "yes"
        return Response(data, media_type="application/json", headers=headers)

    async def changes(self, request: Request) -> Response:
        since = request.query_params.get("since", "")
        if not since.isdecimal():
            raise HTTPException(400, "since must be a generation")
        events = self._events(int(since))
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return StreamingResponse(events, media_type="text/event-stream")
        headers = {"content-encoding": "gzip"}
        return StreamingResponse(_gzipped(events), headers=headers, media_type="text/event-stream")

    async def _events(self, generation: int) -> AsyncIterator[bytes]:
        silent, trouble = 0.0, ""
        yield b": here\n\n"
        while True:
            present = await run_in_threadpool(self._board.look)
            deltas = self._board.since(generation)
            if deltas is None:
                yield b"event: reset\ndata: \n\n"
                return
            for delta in deltas:
                yield b"data: %b\n\n" % delta
            if trouble != (now := self._board.trouble()):
                trouble = now
                yield b"event: trouble\ndata: %b\n\n" % " ".join(now.split()).encode()
            silent = 0.0 if deltas else silent + SECONDS
            if silent >= KEEP_ALIVE_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            generation = present
            await asyncio.sleep(SECONDS)

    async def why(self, request: Request) -> Response:
        query = request.query_params
        namespace, pod, group = (query.get(key, "") for key in ("namespace", "pod", "group"))
        if not namespace or bool(pod) == bool(group):
            raise HTTPException(400, "namespace, and pod or group, are needed")
        name = pod or group
        missing = f"nothing is known of {namespace}/{name}"
        return await _asked(lambda: self._why(namespace, name, group=bool(group)), missing)

    async def why_not(self, request: Request) -> Response:
        key = request.query_params.get("pod", "")
        return await _asked(lambda: self._board.why_not(key), f"there is no Pod {key} any more")

    async def node(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        return await _asked(lambda: self._board.node(name), f"there is no node {name} any more")

    async def plan(self, _: Request) -> Response:
        return await _asked(self._plan or (lambda: self._supposed(Supposition())), "")

    async def suppose(self, request: Request) -> Response:
        query = request.query_params
        label, value, number, like = (
            query.get(key, "") for key in ("label", "value", "number", "like")
        )
        if like and not (number.isdecimal() and len(number) < 9 and 1 <= int(number) <= MOST_ADDED):
            raise HTTPException(400, f"number must be from 1 to {MOST_ADDED}")
        what = Supposition(
            (label, value) if label else None,
            (int(number), like) if like else None,
            query.get("other", "") == "yes",
        )
        return await _asked(lambda: self._supposed(what), "")

    async def moves(self, _: Request) -> Response:
        return await _asked(self._moves or (lambda: None), "there is no plan of moves")

    async def moment(self, request: Request) -> Response:
        at = request.query_params.get("at", "")
        if not _TIME.fullmatch(at):
            raise HTTPException(400, "at must be seconds since the epoch")

        def turned() -> Answer:
            if self._turn is None:
                raise RefusedError(404, "this source has one moment")
            self._turn(float(at))
            return {}

        return await _asked(turned, "")

    def _supposed(self, what: Supposition) -> Answer:
        if self._supposes is None:
            raise RefusedError(404, "nothing can be supposed of this source")
        if what.other and not self._supposes.has_other:
            raise RefusedError(400, "there is no configuration B")
        if not self._supposing.acquire(blocking=False):
            raise RefusedError(429, "another question of this kind is being answered")
        try:
            return self._supposes.suppose(what)
        finally:
            self._supposing.release()


async def _gzipped(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each event can be read when it comes; later ones refer to what was in earlier ones."""
    packer = zlib.compressobj(wbits=_GZIP)
    async for event in events:
        yield packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


async def _asked(ask: Callable[[], Answer | None], missing: str) -> Response:
    try:
        answer = await run_in_threadpool(ask)
    except RefusedError as error:
        return PlainTextResponse(f"{error}\n", error.status)
    if answer is None:
        return PlainTextResponse(f"{missing}\n", 404)
    return Response(msgspec.json.encode(answer), media_type="application/json")


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 for any.

    Raises:
        OSError: it is taken, or there is no such address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def server(app: ASGIApp) -> uvicorn.Server:
    """A server for ``app``, ready to `run` on sockets."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=PAGES_OPEN,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt):
        server(app).run(sockets=[listening])
