"""Users' plugins for tests: they answer what a test sets, or break."""

from __future__ import annotations

from typing import Any

from bayplan.framework import Plugin, Status


class Scripted(Plugin):
    """Answers at every point whose method a subclass borrows; `script` says what, by method."""

    script: dict[str, Any]
    calls: list[str]

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.script = dict(type(self).script)
        self.calls = []

    def play(self, method: str) -> Any:
        """The scripted answer; an exception is raised, a function is called."""
        self.calls.append(method)
        answer = self.script.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


def scripted(name: str, **script: Any) -> type[Scripted]:
    """A plugin with just these methods, each answering (or raising) what is given here."""

    def method_of(method: str) -> Any:
        return lambda self, *_: self.play(method)

    if "filter_nodes" in script:
        script.setdefault("reasons", Status.unschedulable("scripted"))
    methods = {method: method_of(method) for method in script}
    return type(name, (Scripted,), {"script": script, **methods})
