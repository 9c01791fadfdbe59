"""Waiting for the real world, and telling whoever watches that something takes long."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T | None], timeout: float, what: str, interval: float = 0.05
) -> T:
    """Call `predicate` every `interval` seconds until it returns something true, and return that.

    Raises:
        TimeoutError: not within `timeout` seconds; the message names `what` and the last answer.
    """
    deadline = time.monotonic() + timeout
    while True:
        if answer := predicate():
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s (last answer: {answer!r})")
        time.sleep(interval)


def say(line: str) -> None:
    """Print one line of progress, at once, where it does not mix with a command's output."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Announce a step that takes long, and how many seconds it took once it is done."""
    say(f"{what} ...")
    begin = time.monotonic()
    yield
    say(f"{what}: done in {time.monotonic() - begin:.1f} s")
