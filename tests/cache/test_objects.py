"""The store of all other kinds: keys, replacements, and who is told."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from bayplan.api.kinds import NAMESPACE, SERVICE
from bayplan.api.meta import ObjectMeta
from bayplan.api.workloads import Namespace, Service
from bayplan.cache.objects import ObjectStore


def service(name: str, version: str = "", namespace: str = "default") -> Service:
    return Service(ObjectMeta(name=name, namespace=namespace, resource_version=version))


def test_objects_are_found_by_kind_and_key() -> None:
    store = ObjectStore()
    one, other = service("a"), service("a", namespace="other")
    assert store.set(SERVICE, one) is None
    store.set(SERVICE, other)
    store.set(NAMESPACE, Namespace(ObjectMeta(name="a")))
    assert store.get(SERVICE, "default/a") is one
    assert store.get(SERVICE, "other/a") is other
    assert store.get(SERVICE, "a") is None
    assert store.keys(SERVICE) == {"default/a", "other/a"}
    assert list(store.all(SERVICE)) == [one, other]
    assert store.keys(NAMESPACE) == {"a"}


def test_a_handler_hears_of_what_is_there_and_of_every_change_after() -> None:
    store = ObjectStore()
    first = service("a", "1")
    store.set(SERVICE, first)
    heard: list[tuple[Any, Any]] = []
    store.on_change(SERVICE, lambda old, new: heard.append((old, new)))
    assert heard == [(None, first)]
    second = service("a", "2")
    assert store.set(SERVICE, second) is first
    assert store.remove(SERVICE, "default/a") is second
    assert store.remove(SERVICE, "default/a") is None
    assert heard[1:] == [(first, second), (second, None)]


@pytest.mark.parametrize("fault", [ValueError, SystemExit, GeneratorExit])
def test_a_handler_of_a_plugin_that_breaks_is_logged_and_the_others_are_told(
    fault: type[BaseException],
) -> None:
    store = ObjectStore()
    heard: list[Any] = []

    def breaks(old: Service | None, new: Service | None) -> None:
        raise fault

    store.on_change(SERVICE, breaks)
    store.on_change(SERVICE, lambda old, new: heard.append(new))
    with structlog.testing.capture_logs() as logs:
        store.set(SERVICE, service("a"))
    assert [line["key"] for line in logs] == ["default/a"]
    assert len(heard) == 1


def test_an_index_of_ours_that_breaks_ends_the_scheduler() -> None:
    store = ObjectStore()

    def breaks(old: Service | None, new: Service | None) -> None:
        raise ValueError("wrong")

    breaks.__module__ = "bayplan.plugins.shared.some_index"
    store.on_change(SERVICE, breaks)
    with pytest.raises(ValueError, match="wrong"):
        store.set(SERVICE, service("a"))


def test_a_shared_index_is_made_once() -> None:
    store = ObjectStore()

    class Index:
        def __init__(self, start: int) -> None:
            self.start = start

    index = store.shared(Index, 1)
    assert store.shared(Index, 2) is index
    assert index.start == 1
