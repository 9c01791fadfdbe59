"""UnschedulablePods: Pods that wait for an event, indexed by the plugins whose events those are.

An event costs one dictionary lookup per interested plugin, however many Pods wait, if none of them
was rejected by these plugins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from bayplan.queue.queued_pod import QueuedPod

PluginKey = tuple[str, str]
"""(profile, plugin)."""


def rejectors(queued: QueuedPod) -> Iterable[str]:
    """An unschedulable Pod waits for any of the plugins that rejected it."""
    return queued.rejectors


def gating_plugin(queued: QueuedPod) -> Iterable[str]:
    """A gated Pod waits for its gating plugin only, whichever others rejected it before."""
    return (queued.gating_plugin,)


def nobody(_: QueuedPod) -> Iterable[str]:
    """A Pod that waits with its group waits for no plugin: its group does."""
    return ()


class UnschedulablePods:
    """Pods in the order in which they came, and by the plugins that ``waits_for`` gives."""

    def __init__(self, waits_for: Callable[[QueuedPod], Iterable[str]]) -> None:
        self._waits_for = waits_for
        self._pods: dict[str, tuple[QueuedPod, tuple[PluginKey, ...]]] = {}
        self._by_plugin: dict[PluginKey, dict[str, QueuedPod]] = defaultdict(dict)

    def add(self, queued: QueuedPod) -> None:
        """Put a Pod in; it is found by the plugins it waits for now until it is taken out."""
        profile = queued.profile
        keys = tuple((profile, plugin) for plugin in self._waits_for(queued))
        self._pods[queued.uid] = queued, keys
        for key in keys:
            self._by_plugin[key][queued.uid] = queued

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""
        found = self._pods.pop(queued.uid, None)
        if found is None:
            return False
        for key in found[1]:
            del self._by_plugin[key][queued.uid]
        return True

    def waiting_for(self, plugins: Iterable[PluginKey]) -> list[QueuedPod]:
        """The Pods that wait for any of ``plugins``, each once."""
        pods = [p for key in plugins if (p := self._by_plugin.get(key))]
        if len(pods) == 1:
            return list(pods[0].values())
        return list({uid: queued for found in pods for uid, queued in found.items()}.values())

    def oldest(self) -> QueuedPod | None:
        """The Pod that has waited longest."""
        return next(iter(self), None)

    def counts(self) -> dict[str, int]:
        """How many Pods wait for each plugin, over all profiles; any thread may ask."""
        counts: Counter[str] = Counter()
        for (_, plugin), pods in self._by_plugin.copy().items():
            counts[plugin] += len(pods)
        return dict(+counts)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for queued, _ in self._pods.values())
