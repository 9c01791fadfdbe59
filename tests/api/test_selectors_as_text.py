"""Label selectors as kubectl takes them."""

from __future__ import annotations

import pytest

from bayplan.api.selectors import SelectorError, parse

LABELS = {"app": "web", "tier": "front", "size": "3"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("! other", True),
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app = web , tier = back", False),
        ("app in (web, db),tier", True),
        ("app notin (web,db)", False),
        ("other notin (x)", True),
        ("size>2,size<4", True),
        ("app=", False),
    ],
)
def test_a_selector_in_text_selects_as_by_kubectl(text: str, holds: bool) -> None:
    assert parse(text)(LABELS) is holds


@pytest.mark.parametrize("text", ["=web", "app in web", "!app=web", "a b", "a,,b", "size>x"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)
