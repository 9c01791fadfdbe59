"""Profile: where the threads of this process spend a time, by samples of their stacks.

The samples are taken here, because pyinstrument itself follows one thread; it makes the tree and
draws it. A thread in C code that holds the interpreter lock is seen where it leaves it. A thread
that waits is sampled, too: the tree has the time of the clock, not that of the CPU.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinstrument.session import Session

INTERVAL_SECONDS = 0.01
FORMATS = ("text", "html", "speedscope")

Stack = tuple[str, ...]
Sleep = Callable[[float], object]


def sample(seconds: float, sleep: Sleep = time.sleep) -> Session:
    """Look at all threads but the calling one for ``seconds``."""
    from pyinstrument.session import Session  # noqa: PLC0415 - only for those who profile

    began, cpu_began = time.time(), time.process_time()
    stacks: dict[int, list[tuple[Stack, float]]] = defaultdict(list)
    started = before = time.monotonic()
    samples = 0
    while before - started < seconds:
        sleep(INTERVAL_SECONDS)
        now = time.monotonic()
        for thread, stack in _stacks():
            stacks[thread].append((stack, now - before))
        before, samples = now, samples + 1
    return Session(
        frame_records=[(list(stack), time) for group in stacks.values() for stack, time in group],
        start_time=began,
        duration=before - started,
        min_interval=INTERVAL_SECONDS,
        max_interval=INTERVAL_SECONDS,
        sample_count=samples,
        start_call_stack=[""],  # the stem that is left out; no stack begins with it
        target_description=f"all threads, every {INTERVAL_SECONDS * 1000:.0f} ms",
        cpu_time=time.process_time() - cpu_began,
        sys_path=sys.path,
        sys_prefixes=Session.current_sys_prefixes(),
    )


def render(session: Session, form: str) -> str:
    """As a tree in ``text``, a page of ``html``, or for https://speedscope.app."""
    from pyinstrument import renderers  # noqa: PLC0415

    renderer: renderers.Renderer = renderers.ConsoleRenderer(unicode=True, color=False)
    if form == "html":
        renderer = renderers.HTMLRenderer()
    elif form == "speedscope":
        renderer = renderers.SpeedscopeRenderer()
    return renderer.render(session)


def _stacks() -> Iterator[tuple[int, Stack]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():  # noqa: SLF001 - there is no other way
        if thread != own:
            root = _identifier("process", "<process>", 0)
            name = _identifier(names.get(thread, str(thread)), "<thread>", 0)
            yield thread, (root, name, *_calls(frame))


def _calls(frame: FrameType | None) -> tuple[str, ...]:
    """The functions from the outermost to the innermost, as pyinstrument writes them."""
    calls = []
    while frame is not None:
        code = frame.f_code
        calls.append(_identifier(code.co_qualname, code.co_filename, code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(calls))


def _identifier(name: str, file: str, line: int) -> str:
    return f"{name}\x00{file}\x00{line}"
