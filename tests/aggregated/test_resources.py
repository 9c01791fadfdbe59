"""Paths of the aggregated API, and the pages behind these."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.aggregated.discovery import documents
from bayplan.aggregated.resources import ANSWERS, GROUPS, PREFIX, path_of, question, resources

NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
PAGES: st.SearchStrategy[tuple[str, dict[str, str]]] = st.one_of(
    st.builds(lambda ns, pod: ("/why", {"namespace": ns, "pod": pod}), NAME, NAME),
    st.builds(
        lambda ns, kind, name: ("/why", {"namespace": ns, "group": kind + name}),
        NAME,
        st.sampled_from(sorted(GROUPS.values())),
        NAME,
    ),
    st.builds(
        lambda page, ns: (f"/{page}", {"namespace": ns}), st.sampled_from(sorted(ANSWERS)), NAME
    ),
    st.sampled_from(sorted(ANSWERS.keys() - {"plan"})).map(lambda page: (f"/{page}", {})),
)


@given(PAGES)
def test_each_page_has_one_path_and_back(page: tuple[str, dict[str, str]]) -> None:
    name, query = page
    whole = name + (f"?{urlencode(query)}" if query else "")
    asked = question(path_of(whole))
    assert asked is not None
    assert asked.page == whole
    assert dict(parse_qsl(urlsplit(asked.page).query)) == query
    assert asked.wanted.namespace == query.get("namespace", "")


@given(st.lists(st.sampled_from(["namespaces", "a", "pods", "jobs", "schedulers", "leader"])))
def test_a_path_asks_for_a_resource_that_is_listed(parts: list[str]) -> None:
    listed = {(resource.name, resource.verb) for resource in resources()}
    for last in ("explanation", "status", "plan", "improve", "bays"):
        asked = question("/".join([PREFIX, *parts, last]))
        if asked is not None:
            wanted = asked.wanted
            assert (f"{wanted.resource}/{wanted.subresource}", wanted.verb) in listed


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/namespaces/a/pods/b",
        "/namespaces/a/pods/b/status",
        "/namespaces/a/pods//explanation",
        "/namespaces//pods/b/explanation",
        "/namespaces/a/nodes/b/explanation",
        "/namespaces/a/pods/b/explanation/",
        "/namespaces/a%2Fpods/b/explanation",
        "/namespaces/a/pods/b%2Fc/explanation",
        "/schedulers/leader/plan",
        "/schedulers/other/status",
        "/schedulers/leader/metrics",
        "/pods/b/explanation",
    ],
)
def test_other_paths_are_none(path: str) -> None:
    assert question(PREFIX + path) is None
    assert question(path) is None


def test_discovery_lists_each_resource_once_with_one_scope() -> None:
    listed = documents()[PREFIX]["resources"]
    names = [one["name"] for one in listed]
    assert len(set(names)) == len(names) == len(list(resources()))
    assert {one["namespaced"] for one in listed} == {True}
    assert all("/" in name for name in names)
