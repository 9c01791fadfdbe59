"""The page of a recording in a real browser: the slider goes through the moments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import chromium
from e2e.chromium import Tab
from tests.replay.worlds import Story, nodes

from bayplan.testing import make_pod

pytestmark = pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)

SLIDE = """((share) => { const slider = document.getElementById("moment");
  slider.value = share * slider.max;
  slider.dispatchEvent(new Event("input"));
  slider.dispatchEvent(new Event("change")); })"""
WAITING = "[...document.querySelectorAll('#pending b')].map(one => one.innerText)"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page: web waits from second 100, is bound at 200, and gone at 300 of 400."""
    folder = tmp_path_factory.mktemp("recording")
    story, web = Story(folder / "day.zst", *nodes(2)), make_pod("web").uid("1")
    web.json["metadata"]["creationTimestamp"] = "1970-01-12T13:48:20Z"
    story.at(100).add(web.req(cpu="3"))
    story.at(200).add(web.node("n1"))
    story.at(300).remove(web)
    command = [sys.executable, "-m", "bayplan", "view", "-r", str(story.end(400))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def _slid(tab: Tab, share: float, shown: str) -> None:
    """The slider is at that share of the recording, and the page shows that moment."""
    tab.run(f"{SLIDE}({json.dumps(share)})")
    tab.wait(f"document.getElementById('summary').innerText.startsWith({json.dumps(shown)})")


def test_the_slider_shows_what_there_was_and_questions_are_answered_for_then(
    url: str, tmp_path: Path
) -> None:
    with chromium.opened(tmp_path) as tab:
        tab.open(url)
        tab.wait("Number(document.body.dataset.generation ?? 0) > 0 && bayplan.picture.painted")
        assert tab.text("#when") == "1970-01-12T13:53:20Z"
        assert tab.text("#summary").startswith("3 nodes, 0 Pods on them, 0 wait; from ")
        _slid(tab, 0.4, "2 nodes, 0 Pods on them, 1 wait")
        assert tab.text("#when") == "1970-01-12T13:49:20Z"
        assert tab.run(WAITING) == ["default/web"]
        assert tab.text("#pending .facts").strip() == "1m"
        tab.run("document.querySelector('#pending button').click()")
        tab.wait("document.querySelector('#answer h2')?.innerText.includes('default/web')")
        tab.run("document.getElementById('plan').click()")
        tab.wait("bayplan.picture.ghosts.get('n1') === 1")
        _slid(tab, 0.6, "2 nodes, 1 Pods on them, 0 wait")
        assert tab.run("document.getElementById('answer').hidden")
        assert tab.run("bayplan.picture.ghosts.size") == 0
        share = "(bays => bays.share(bays.nodes.name.indexOf('n1'), 'cpu'))(bayplan.state.bays)"
        assert tab.run(share) == 0.75
        label = tab.run("document.getElementById('timeline').getAttribute('aria-label')")
        assert label == (
            "The whole recording, 1970-01-12T13:46:40Z to 1970-01-12T13:53:20Z: "
            "1 Pods bound, 0 evicted; 0 wait"
        )
        tab.press("t")
        assert tab.text("#table tbody").splitlines()[0].split("\t") == [
            *("until 1970-01-12T13:48:40Z", "0", "1", "0")
        ]
        tab.press("t")
        _slid(tab, 0, "2 nodes, 0 Pods on them, 0 wait")
        assert tab.faults == []
