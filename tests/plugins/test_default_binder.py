from __future__ import annotations

from collections.abc import Callable

from tests.handles import RefusingWriter, make_handle
from tests.plugins.harness import make

from bayplan.api.pod import Pod
from bayplan.framework.cycle_state import CycleState
from bayplan.framework.status import SUCCESS, Status
from bayplan.plugins.default_binder import DefaultBinder
from bayplan.testing import make_pod


class Client(RefusingWriter):
    """Takes bindings and answers them when told to."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.answer: Callable[[Exception | None], None] = lambda _: None

    def bind(self, pod: Pod, node_name: str, on_done: Callable[[Exception | None], None]) -> None:
        self.bound.append((pod.key, node_name))
        self.answer = on_done


def test_the_outcome_of_a_binding_comes_with_the_answer_of_the_api_server() -> None:
    client = Client()
    plugin = make(DefaultBinder, handle=make_handle(writer=client))
    outcomes: list[Status] = []
    plugin.bind(CycleState(), make_pod("p").obj(), "n")(outcomes.append)
    assert client.bound == [("default/p", "n")]
    assert not outcomes
    client.answer(None)
    assert outcomes == [SUCCESS]


def test_a_refused_binding_is_an_error_in_the_words_of_the_api_server() -> None:
    client = Client()
    plugin = make(DefaultBinder, handle=make_handle(writer=client))
    outcomes: list[Status] = []
    plugin.bind(CycleState(), make_pod("p").obj(), "n")(outcomes.append)
    client.answer(RuntimeError('pods "p" not found'))
    assert outcomes == [Status.error('pods "p" not found')]
