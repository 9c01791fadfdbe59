"""UnschedulablePods: Pods that wait for an event, indexed by the plugins of the events.

An event costs one dictionary lookup per interested plugin, however many Pods wait, if none of them
was rejected by these plugins. Where a plugin's registrations have an index (`HintIndex`), a Pod is
also found by each of its keys there, so an event that concerns one Pod of thousands finds that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator

from bayplan.queue.queued_pod import QueuedPod

PluginKey = tuple[str, str]
"""(profile, plugin)."""
WaitKey = PluginKey | tuple[str, str, Hashable]
"""What a Pod is found by: (profile, plugin), or (profile, plugin, key of an index)."""


WaitKeys = Callable[[QueuedPod, Iterable[str]], Iterable[WaitKey]]
"""``wait_keys(queued, plugins)``: what a Pod that waits for these plugins is found by."""


def by_plugin(queued: QueuedPod, plugins: Iterable[str]) -> Iterable[WaitKey]:
    """The keys where no plugin has an index."""
    profile = queued.profile
    return [(profile, plugin) for plugin in plugins]


class UnschedulablePods:
    """Pods in order of arrival, indexed by the plugins whose events the Pods wait for.

    Args:
        waits_for: the plugins whose events a Pod waits for: all that rejected it, or the one that
            gates it, whoever rejected it before.
        wait_keys: what a Pod that waits for these plugins is found by.
    """

    def __init__(
        self,
        waits_for: Callable[[QueuedPod], Iterable[str]],
        wait_keys: WaitKeys = by_plugin,
    ) -> None:
        self._waits_for = waits_for
        self._wait_keys = wait_keys
        self._pods: dict[str, tuple[QueuedPod, tuple[WaitKey, ...]]] = {}
        self._by_key: dict[WaitKey, dict[str, QueuedPod]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Add a Pod under the plugins to wait for; the keys stay until the Pod is removed."""
        keys = tuple(dict.fromkeys(self._wait_keys(queued, self._waits_for(queued))))
        self._pods[queued.uid] = queued, keys
        for key in keys:
            self._by_key.setdefault(key, {})[queued.uid] = queued

    def discard(self, queued: QueuedPod) -> bool:
        """Take the Pod out; whether it was in."""
        entry = self._pods.pop(queued.uid, None)
        if entry is None:
            return False
        for key in entry[1]:
            pods = self._by_key[key]
            del pods[queued.uid]
            if not pods:
                del self._by_key[key]
        return True

    def waiting_for(self, keys: Iterable[WaitKey]) -> list[QueuedPod]:
        """The Pods that are found by any of ``keys``, each once."""
        pods = [p for key in keys if (p := self._by_key.get(key))]
        if len(pods) == 1:
            return list(pods[0].values())
        return list({uid: queued for waiting in pods for uid, queued in waiting.items()}.values())

    def oldest(self) -> QueuedPod | None:
        """The Pod that has waited longest."""
        return next(iter(self), None)

    def counts(self) -> dict[str, int]:
        """How many Pods wait for each plugin, over all profiles; any thread may ask."""
        counts: Counter[str] = Counter()
        found: dict[str, set[str]] = {}
        for key, pods in self._by_key.copy().items():
            if len(key) == 2:
                counts[key[1]] += len(pods)
            else:
                found.setdefault(key[1], set()).update(list(pods))
        counts.update({plugin: len(pods) for plugin, pods in found.items()})
        return dict(counts)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for queued, _ in self._pods.values())
