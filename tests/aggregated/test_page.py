"""The page below the aggregated API: its files for who may, and what a browser asks then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import chromium
from e2e.chromium import Tab
from tests.view.support import cluster, updated

from bayplan.aggregated.page import PageFiles
from bayplan.aggregated.resources import PREFIX
from bayplan.client.errors import ApiError
from bayplan.server.pages import JSON, Answer, Attributes, Page, PageRequest, text
from bayplan.server.port import Port
from bayplan.view.columns import Bays
from bayplan.view.session import HEADERS

LEADER = f"{PREFIX}/schedulers/leader"
IN_SHOP = f"{PREFIX}/namespaces/shop/schedulers/leader"


@pytest.mark.parametrize(
    ("path", "namespace", "kind"),
    [
        (f"{LEADER}/page/", "", "text/html"),
        (f"{IN_SHOP}/page/", "shop", "text/html"),
        (f"{IN_SHOP}/page/static/view.js", "shop", "text/javascript"),
    ],
)
def test_its_files_are_for_who_may_get_the_page_there(path: str, namespace: str, kind: str) -> None:
    page = PageFiles().get(path)
    assert page is not None
    assert page.asks
    asked = list[Attributes]()

    def answer(allowed: Any) -> Answer:
        def may(wanted: Attributes) -> bool:
            asked.append(wanted)
            if isinstance(allowed, ApiError):
                raise allowed
            return bool(allowed)

        return page.answer(PageRequest("GET", path, {}, b"", may))

    found = answer(True)
    assert (found.status, found.content_type) == (200, kind)
    assert dict(found.headers) == HEADERS
    assert answer(False).status == 403
    assert answer(ApiError("silent")).status == 503
    wanted = Attributes("get", "schedulers", namespace, "leader", "view.bayplan.dev", "page")
    assert set(asked) == {wanted}


@pytest.mark.parametrize(
    "path",
    [
        f"{LEADER}/page",
        f"{LEADER}/page/static/",
        f"{LEADER}/page/static/../files.py",
        f"{LEADER}/page/static/none.js",
        f"{PREFIX}/namespaces//schedulers/leader/page/",
        "/page/",
    ],
)
def test_other_paths_have_no_file(path: str) -> None:
    assert PageFiles().get(path) is None


class _Api:
    """What kubectl proxy shows: the files, and resources that say what they like."""

    def __init__(self) -> None:
        bays = Bays()
        updated(bays, cluster())
        self.answers: dict[str, Any] = {f"{LEADER}/bays": bays.document()}
        self.asked = list[str]()
        self._files = PageFiles()

    def get(self, path: str, /) -> Page | None:
        """See `bayplan.server.pages.PageSource`."""
        return self._files.get(path) or Page(self._answer)

    def _answer(self, request: PageRequest) -> Answer:
        self.asked.append(request.path)
        found = self.answers.get(request.path)
        if found is None:
            status = {"kind": "Status", "message": "you may not", "code": 403}
            return Answer(403, json.dumps(status).encode(), JSON)
        return Answer(200, json.dumps(found).encode(), JSON) if found else text(404, "")


@pytest.fixture
def api() -> Iterator[tuple[_Api, str]]:
    made = _Api()
    port = Port("127.0.0.1", 0, made)
    port.start()
    yield made, f"http://127.0.0.1:{port.port}"
    port.stop()


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_a_browser_asks_for_resources_alone_and_says_what_is_refused(
    api: tuple[_Api, str], tmp_path: Path
) -> None:
    made, url = api
    made.answers[f"{PREFIX}/namespaces/shop/pods/big/explanation"] = {
        "kind": "PodAnswer",
        "sentence": "shop/big waits: no room",
        "group": {"name": "shop/Job/train"},
    }
    made.answers[f"{PREFIX}/namespaces/shop/jobs/train/explanation"] = {
        "kind": "GroupAnswer",
        "sentence": "group shop/Job/train waits",
    }
    with chromium.opened(tmp_path) as tab:
        tab.open(f"{url}{LEADER}/page/")
        tab.wait("Number(document.body.dataset.generation ?? 0) > 0 && bayplan.picture.painted")
        assert tab.text("#summary") == "3 nodes, 3 Pods on them, 2 wait; from the scheduler"
        assert tab.run("document.getElementById('what-if').hidden")
        _click(tab, "[data-pod='shop/big']")
        tab.wait("document.querySelector('#answer h2')?.innerText === 'shop/big waits: no room'")
        assert tab.run("document.getElementById('why-not')") is None
        _click(tab, "[data-group]")
        tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('group shop')")
        _click(tab, "[data-pod='bank/vault']")
        tab.wait("document.querySelector('#answer h2')?.innerText === 'you may not'")
        assert all(path.startswith(PREFIX) for path in made.asked)
        del made.answers[f"{LEADER}/bays"]
        tab.open(f"{url}{IN_SHOP}/page/")
        tab.wait("!document.getElementById('problem').hidden")
        assert tab.text("#problem") == "you may not"
        assert f"{IN_SHOP}/bays" in made.asked


def _click(tab: Tab, selector: str) -> None:
    tab.run(f"document.querySelector({json.dumps(selector)}).click()")
