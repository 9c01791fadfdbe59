"""The page in a real browser: what it shows, what clicks and keys do, and what it never does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from e2e import chromium
from e2e.chromium import Tab
from tests.view.support import GPU, RACK, ZONE
from tests.view.test_server import Site, served

from bayplan.testing import make_node, make_pod
from bayplan.view import board as boards
from bayplan.view.board import Supposition

pytestmark = pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)

GENERATION = "Number(document.body.dataset.generation ?? 0)"
PIXEL = """(([name, across, up]) => {
  const {picture, state} = bayplan, row = state.bays.nodes.name.indexOf(name);
  const size = picture.cell * picture.zoom - 1;
  const at = [picture.px(row) + across * size, picture.py(row) + (1 - up) * size];
  return [...picture.context.getImageData(...at.map(Math.floor), 1, 1).data].slice(0, 3);
})"""


DRAGGED = """(async () => {
  const {picture} = bayplan, {canvas} = picture;
  const frame = () => new Promise(requestAnimationFrame);
  const painted = async () => { await frame(); await frame(); };
  const pixels = () => picture.context.getImageData(0, 0, canvas.width, canvas.height).data;
  picture.few = 0;
  picture.zoomBy(ZOOM, 0, 0);
  await painted();
  const before = pixels();
  for (const [right, down] of [[7, 3], [40, 0], [0, 25], [-13, -9], [0.4, 60], [90, -2]]) {
    picture.pan(right, down);
    await painted();
  }
  const dragged = pixels();
  picture.draw();
  await painted();
  const drawn = pixels(), differing = (one) => one.filter((value, i) => value !== drawn[i]).length;
  return [differing(before), differing(dragged)];
})()"""


class _Supposed:
    """Answers of other clusters, as the page gets them."""

    has_other = True

    def suppose(self, what: Supposition) -> dict[str, Any]:
        assert what == self.expected
        return dict(self.answer)

    expected = Supposition()
    answer: ClassVar[dict[str, Any]] = {}

    @classmethod
    def expects(cls, expected: Supposition, **answer: Any) -> None:
        rest: dict[str, Any] = {"placed": {}, "evicted": {}, "leaving": {}, "waits": {}}
        cls.expected, cls.answer = expected, rest | answer


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium.opened(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(boards, "SECONDS", 0.0)

    with served(_Supposed()) as made:
        yield made


@pytest.fixture
def tab(browser: Tab, site: Site) -> Iterator[Tab]:
    """The page as whoever follows the printed address sees it."""
    browser.requests.clear()
    browser.faults.clear()
    browser.prefer(color_scheme="light")
    browser.open(site.session.url)
    browser.wait(f"{GENERATION} > 0 && bayplan.picture.painted")
    yield browser
    assert browser.faults == []
    browser.open("about:blank#")


def painted(tab: Tab) -> None:
    """Wait for what was asked to be drawn."""
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pixel(tab: Tab, node: str, across: float, up: float) -> tuple[int, ...]:
    """The colour at shares of a node's cell: from the left, from below."""
    painted(tab)
    return tuple(tab.run(f"{PIXEL}({json.dumps([node, across, up])})"))


def lens(tab: Tab, name: str) -> None:
    script = f"""(() => {{ const lens = document.getElementById("lens");
      lens.value = [...lens.options].find(option => option.text === {json.dumps(name)}).value;
      lens.dispatchEvent(new Event("change")); }})()"""
    tab.run(script)
    painted(tab)


def where(tab: Tab, node: str) -> tuple[float, float]:
    """The middle of a node's cell in the window."""
    script = """((name) => { const {picture, state} = bayplan;
      const row = state.bays.nodes.name.indexOf(name), half = picture.cell * picture.zoom / 2;
      const box = picture.canvas.getBoundingClientRect();
      return [box.left + picture.px(row) + half, box.top + picture.py(row) + half]; })"""
    x, y = tab.run(f"{script}({json.dumps(node)})")
    return x, y


def test_it_says_what_there_is_and_asks_for_nothing_from_elsewhere(tab: Tab, site: Site) -> None:
    assert tab.text("#summary") == "3 nodes, 3 Pods on them, 2 wait; from a tést"
    here = f"http://127.0.0.1:{site.port}/"
    assert {url.startswith((here, "data:")) for url in tab.requests} == {True}
    assert "#" not in tab.run("location.href")
    assert not any(site.session.token in url for url in tab.requests)


@pytest.mark.parametrize("zoom", [1.7, 2.53])
@pytest.mark.parametrize("by", ["dominant share", "namespace"])
def test_a_dragged_picture_is_the_same_as_one_that_is_drawn_anew(
    tab: Tab, by: str, zoom: float
) -> None:
    lens(tab, by)
    tab.run("bayplan.picture.select(0)")
    otherwise_before, otherwise_dragged = tab.run(DRAGGED.replace("ZOOM", str(zoom)))
    assert otherwise_before > 0
    assert otherwise_dragged == 0


def test_a_second_browser_is_not_let_in_and_the_first_may_load_again(
    tab: Tab, site: Site, tmp_path: Path
) -> None:
    with chromium.opened(tmp_path) as other:
        other.open(site.session.url)
        other.wait("!document.getElementById('problem').hidden")
        assert "open the address that bayplan view has printed" in other.text("#problem")
        assert "n10" not in other.run("document.documentElement.outerHTML")
    tab.open(f"http://127.0.0.1:{site.port}/")
    tab.wait(f"{GENERATION} > 0")


@pytest.mark.parametrize(
    ("by", "resource"), [("dominant share", ""), ("cpu", "cpu"), ("memory", "memory")]
)
def test_each_cell_is_filled_as_high_as_the_columns_say(
    tab: Tab, site: Site, by: str, resource: str
) -> None:
    lens(tab, by)
    nodes = site.board.document()["nodes"]
    for row, name in enumerate(nodes["name"]):
        shares = [
            nodes[f"requested/{one}"][row] / nodes[f"allocatable/{one}"][row]
            for one in ([resource] if resource else ["cpu", "memory", "pods"])
        ]
        share = max(shares)
        assert share > 0.1
        empty = pixel(tab, name, 0.5, share + 0.06)
        assert pixel(tab, name, 0.5, share - 0.06) != empty, (name, share)
        assert pixel(tab, name, 0.5, 0.97) == empty
        assert empty == (0xF1, 0xF2, 0xF4)


def test_stranded_room_is_what_the_columns_say(tab: Tab, site: Site) -> None:
    with site.lock:
        site.cluster.add(make_pod("rest").req(cpu="1").node("n10"))
    tab.wait("bayplan.state.bays.counts.pods === 4")
    lens(tab, "stranded room")
    shares = tab.run("bayplan.state.bays.nodes.name.map((_, row) => bayplan.state.lens.share(row))")
    assert shares == [0, 0, 0.5]
    light, same, dark = (pixel(tab, name, 0.5, 0.1) for name in ("n1", "n2", "n10"))
    assert light == same
    assert sum(dark) < sum(light)
    says = tab.run("bayplan.state.bays.nodes.name.map((_, row) => bayplan.state.lens.says(row))")
    assert says == ["stranded nothing", "stranded nothing", "stranded memory 50%"]


def test_groups_are_a_lens_when_there_are_some(tab: Tab, site: Site) -> None:
    labels = "[...document.getElementById('lens').options].map(one => one.text)"
    assert "group" not in tab.run(labels)
    with site.lock:
        site.cluster.add(make_pod("worker").pod_group("train").node("n2"))
    tab.wait(f"{labels}.includes('group')")
    lens(tab, "group")
    assert "default/train (1)" in tab.text("#legend")
    says = tab.run("bayplan.state.bays.nodes.name.map((_, row) => bayplan.state.lens.says(row))")
    assert says == ["group none", "group default/train", "group none"]


def test_a_node_that_is_clicked_shows_its_pods(tab: Tab) -> None:
    tab.click(*where(tab, "n10"))
    tab.wait("document.querySelector('#answer h2')?.innerText === 'n10'")
    assert "bank/db" in tab.text("#answer")
    assert tab.text("#here").startswith("n10; b / r1; dominant share 75%; cpu 3 of 4 (75%)")


def test_why_and_why_not_of_a_pod_that_waits(tab: Tab) -> None:
    tab.run("document.querySelector('[data-pod=\"shop/big\"]').click()")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('shop/big waits: 0/3')")
    assert "Insufficient cpu" in tab.text("#answer table")
    tab.run("document.getElementById('why-not').click()")
    tab.wait("bayplan.state.lens.id === 'why-not'")
    assert "NodeResourcesFit: Insufficient cpu (3)" in tab.text("#legend")
    tab.press("Escape")
    tab.wait("document.getElementById('answer').hidden && bayplan.state.lens.id === 'dominant'")


def test_where_a_pod_would_go_is_framed_on_the_picture(tab: Tab, site: Site) -> None:
    with site.lock:
        site.cluster.add(make_pod("fits").req(cpu="3").node_selector({ZONE: "a"}))
        site.cluster.add(make_node("n0").capacity(cpu="9", pods=10).label(ZONE, "a"))
    tab.wait("bayplan.state.bays.counts.nodes === 4 && bayplan.state.bays.counts.waiting === 3")
    tab.run("document.querySelector('[data-pod=\"default/fits\"]').click()")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('default/fits waits')")
    [[node, count]] = tab.run("[...bayplan.picture.ghosts]")
    assert node in ("n0", "n1", "n2")
    assert count == 1
    assert f"would go to: {node}" in tab.text("#answer")
    tab.press("Escape")
    assert tab.run("bayplan.picture.ghosts.size") == 0


def fill(tab: Tab, **fields: str) -> None:
    """Write into fields of the page, as a hand does."""
    script = """(([name, value]) => { const field = document.getElementById(name);
      field.value = value;
      for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind)); })"""
    for field in fields.items():
        tab.run(f"{script}({json.dumps(field)})")


def test_nodes_can_be_thought_away(tab: Tab) -> None:
    _Supposed.expects(
        Supposition((ZONE, "a")),
        sentence="2 nodes lost, 2 Pods with them: back on a node: 1, down: 1, gone: 0",
        lost=["n1", "n2"],
        back={"shop/web-1": "n10"},
        down={"shop/web-2": "no room"},
        gone={},
        placed={"shop/web-1": "n10"},
        evicted={"bank/db": ["shop/web-1"]},
        leaving={"bank/db": "n10"},
        waits={"shop/web-2": "no room"},
    )
    full = pixel(tab, "n1", 0.7, 0.1)
    corner = pixel(tab, "n10", 0.98, 0.98)
    choices = tab.run("[...document.getElementById('lose').options].map(one => one.text)")
    assert choices == ["nothing", "zone a", "zone b", "rack r1", "rack r2"]
    fill(tab, lose=json.dumps([ZONE, "a"], separators=(",", ":")))
    tab.run("document.getElementById('suppose').click()")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('2 nodes lost')")
    for text in ("shop/web-1\tn10", "shop/web-2\tno room", "bank/db\tshop/web-1"):
        assert text in tab.text("#answer")
    assert pixel(tab, "n1", 0.7, 0.1) != full
    assert pixel(tab, "n10", 0.98, 0.98) != corner
    assert tab.run("[...bayplan.picture.ghosts]") == [["n10", 1]]
    assert tab.run("[...bayplan.picture.leaving]") == [["n10", 1]]
    tab.press("Escape")
    assert pixel(tab, "n1", 0.7, 0.1) == full
    assert pixel(tab, "n10", 0.98, 0.98) == corner


def test_nodes_like_one_can_be_added_in_thought_and_are_on_the_picture(tab: Tab) -> None:
    _Supposed.expects(
        Supposition(add=(3, "n10")),
        sentence="3 nodes like n10 added: placed in addition: 2, no longer placed: 1",
        nodes=["n10-added-1", "n10-added-2", "n10-added-3"],
        fits={"shop/big": "n10-added-1", "shop/web-9": "n2"},
        noLonger=["shop/old"],
        placed={"shop/big": "n10-added-1", "shop/web-9": "n2"},
        waits={"bank/vault": "no room", "shop/old": "too much skew"},
    )
    tab.click(*where(tab, "n10"))
    tab.wait("document.getElementById('like-this') !== null")
    tab.run("document.getElementById('like-this').click()")
    assert tab.run("document.activeElement.id") == "more"
    assert tab.run("document.getElementById('number').value") == "1"
    fill(tab, more="3")
    assert tab.run("document.getElementById('number').value") == "3"
    tab.run("document.getElementById('suppose').click()")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('3 nodes like n10 added')")
    tables = tab.run(
        "[...document.querySelectorAll('#answer table')].map(one => one.innerText.split('\\n'))"
    )
    assert tables == [
        ["placed in addition\ton", "shop/big\tn10-added-1", "shop/web-9\tn2"],
        ["no longer placed\twhy", "shop/old\ttoo much skew"],
        ["still waits\twhy", "bank/vault\tno room"],
    ]
    ghosts = tab.run("[...bayplan.picture.ghosts.keys()]")
    assert ghosts == ["n10-added-1", "n2"]
    blocks = tab.run("bayplan.picture.blocks.map(one => [one.key, one.rows.length])")
    assert blocks[-1] == ["added", 3]
    tab.press("Escape", "Escape")
    assert tab.run("bayplan.picture.ghosts.size + bayplan.picture.added.length") == 0
    assert "added" not in tab.run("bayplan.picture.blocks.map(one => one.key)")


def test_where_all_that_waits_would_go_is_drawn_by_a_key(tab: Tab) -> None:
    _Supposed.expects(
        Supposition(),
        sentence="placed: 1 of 2 that wait; 0 Pods would be evicted",
        placed={"shop/big": "n10"},
        waits={"bank/vault": "no room"},
    )
    tab.press("g")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('placed: 1 of 2')")
    assert tab.run("[...bayplan.picture.ghosts]") == [["n10", 1]]
    assert "bank/vault\tno room" in tab.text("#answer")


def test_another_configuration_can_be_asked_about(tab: Tab) -> None:
    _Supposed.expects(
        Supposition(other=True),
        sentence="by configuration B: placed in addition: 0, no longer placed: 0, elsewhere: 1",
        judgedBy="judged by the default profile",
        fits={},
        noLonger=[],
        elsewhere={"shop/big": "n1"},
        placed={"shop/big": "n1"},
    )
    fill(tab, other="yes")
    tab.run("document.getElementById('suppose').click()")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('by configuration B')")
    assert "on another node\ton\nshop/big\tn1" in tab.text("#answer")
    assert "judged by the default profile" in tab.text("#answer")


def test_the_running_schedulers_plan_is_drawn_with_who_would_leave(browser: Tab) -> None:
    answer = {
        "kind": "PlanAnswer",
        "sentence": "3 of 4 Pods can be placed now; 1 Pods would be evicted.",
        "placed": 3,
        "on": [{"of": "train", "pods": 2, "node": "n1"}, {"of": "shop/a", "pods": 1, "node": "n2"}],
        "evictedPods": [{"pod": "bank/db", "for": "shop/a", "node": "n10"}],
        "rejected": [{"of": "shop/big", "pods": 1, "message": "no room"}],
    }
    with served(plan=lambda: answer) as site:
        browser.faults.clear()
        browser.open(site.session.url)
        browser.wait(f"{GENERATION} > 0 && bayplan.picture.painted")
        assert browser.run("document.getElementById('supposing').hidden")
        browser.run("document.getElementById('plan').click()")
        browser.wait("document.querySelector('#answer h2')?.innerText.startsWith('3 of 4 Pods')")
        assert browser.run("[...bayplan.picture.ghosts]") == [["n1", 2], ["n2", 1]]
        assert browser.run("[...bayplan.picture.leaving]") == [["n10", 1]]
        assert "train (2 Pods)\tn1" in browser.text("#answer")
        assert browser.faults == []
        browser.open("about:blank#")


def test_a_lens_of_a_plugin_and_the_devices_of_nodes_are_drawn(tab: Tab, site: Site) -> None:
    profile = next(iter(site.cluster.core.profiles.values()))
    with site.lock:
        for name, zone in (("g1", "a"), ("g2", "b")):
            node = make_node(name).capacity({GPU: "4"}, cpu="4", memory="8Gi", pods=10)
            site.cluster.add(node.label(ZONE, zone).label(RACK, "r9"))
        site.cluster.add(make_pod("uses").req({GPU: "3"}).node("g1"))
        profile.services.node_shares["survivors"] = lambda: np.array([0.25, np.nan, 1.0, 0.5, 0.5])
    labels = "[...document.getElementById('lens').options].map(one => one.text)"
    tab.wait(f"{labels}.includes('survivors')")
    lens(tab, "survivors")
    shares = tab.run("bayplan.state.bays.nodes.name.map((_, row) => bayplan.state.lens.share(row))")
    assert shares == [1, None, 0.25, 0.5, 0.5]
    square = """(([name, i]) => {
      const {picture, state} = bayplan, row = state.bays.nodes.name.indexOf(name);
      const inner = picture.cell * picture.zoom - 1, side = Math.min(9, Math.floor(inner / 9));
      const at = [picture.px(row) + inner - 2 - side / 2, picture.py(row) + 2 + side * (i + 0.5)];
      const {data} = picture.context.getImageData(...at.map(Math.floor), 1, 1);
      return Math.max(...data.slice(0, 3));
    })"""
    inks = [tab.run(f"{square}({json.dumps(['g1', i])})") for i in range(4)]
    assert [ink < 60 for ink in inks] == [True, True, True, False]


def test_the_time_line_counts_bindings_and_says_so_in_words(tab: Tab, site: Site) -> None:
    assert tab.run("document.getElementById('timeline').hidden")
    with site.lock:
        site.cluster.add(*(make_pod(f"new-{i}").req(cpu="100m").node("n2") for i in range(5)))
    tab.wait("!document.getElementById('timeline').hidden")
    label = tab.run("document.getElementById('timeline').getAttribute('aria-label')")
    assert label == "Last 10 minutes: 5 Pods bound, 0 evicted; 2 wait"
    drawn = """(() => { const canvas = document.getElementById("timeline");
      const all = canvas.getContext("2d").getImageData(92, 0, canvas.width - 92, 15).data;
      return all.filter((_, i) => i % 4 === 3 && all[i] > 0).length; })()"""
    assert tab.run(drawn) > 0
    tab.press("t")
    assert tab.text("#table tbody").split("\t") == ["1 min ago", "5", "2", "0"]
    tab.press("t")


def test_everything_can_be_done_with_the_keyboard_alone(tab: Tab) -> None:
    tab.run("document.getElementById('bays').focus()")
    tab.press("ArrowRight")
    assert tab.text("#here").startswith("n1; a / r1")
    tab.press("ArrowRight", "Enter")
    tab.wait("document.querySelector('#answer h2')?.innerText === 'n2'")
    tab.press("Escape", "l")
    assert tab.run("bayplan.state.lens.label") == "cpu"
    tab.press("L", "+")
    assert tab.run("bayplan.picture.zoom") > 1
    tab.press("0", "p", "ArrowDown", "Enter")
    tab.wait("document.querySelector('#answer h2')?.innerText.startsWith('bank/vault waits')")
    tab.press("n")
    tab.wait("bayplan.state.lens.id === 'why-not'")
    tab.press("Escape", "t")
    assert tab.run("document.activeElement.id") == "table"
    tab.press("t", "?")
    assert tab.run("document.getElementById('help').open")
    tab.run("document.getElementById('help').close()")
    tab.press("/")
    tab.run("document.execCommand('insertText', false, 'vault')")
    assert tab.run("document.querySelectorAll('#pending li').length") == 1


def test_the_table_says_the_same_to_those_who_do_not_see_the_picture(tab: Tab) -> None:
    tab.run("document.getElementById('as-table').click()")
    rows = tab.run("[...document.querySelectorAll('#table tbody tr')].map(r => r.innerText)")
    assert [row.split("\t")[:3] for row in rows] == [
        ["n1", "a / r1", "dominant share 25%"],
        ["n2", "a / r2", "dominant share 25%"],
        ["n10", "b / r1", "dominant share 75%"],
    ]
    nameless = tab.run("""[...document.querySelectorAll('button, select, input, canvas#bays')]
        .filter(e => !(e.innerText || e.labels?.length || e.getAttribute('aria-label')))
        .map(e => e.outerHTML)""")
    assert nameless == []


def test_changes_are_drawn_as_they_come_and_nodes_keep_their_places(tab: Tab, site: Site) -> None:
    places = "[...bayplan.picture.slots].map(([key, rows]) => [key, ...rows])"
    assert tab.run(places) == [["a / r1", 0], ["a / r2", 1], ["b / r1", 2]]
    empty = pixel(tab, "n2", 0.5, 0.4)
    more, waiting = make_pod("more").req(cpu="1").node("n2"), make_pod("late").req(cpu="1")
    with site.lock:
        site.cluster.add(more, waiting)
    tab.wait("bayplan.state.bays.counts.pods === 4 && bayplan.state.bays.counts.waiting === 3")
    assert pixel(tab, "n2", 0.5, 0.4) != empty
    assert "default/late" in tab.text("#pending")
    with site.lock:
        site.cluster.remove(more, waiting)
    tab.wait("bayplan.state.bays.counts.pods === 3 && bayplan.state.bays.counts.waiting === 2")
    assert pixel(tab, "n2", 0.5, 0.4) == empty
    assert "default/late" not in tab.text("#pending")
    with site.lock:
        node = make_node("n0").capacity(cpu="4", memory="8Gi", pods=10)
        site.cluster.add(node.label(ZONE, "a").label(RACK, "r1"))
    tab.wait("bayplan.state.bays.counts.nodes === 4")
    painted(tab)
    assert tab.run(places) == [["a / r1", 0, 3], ["a / r2", 1], ["b / r1", 2]]
    shown = tab.run("(({nodes, pods, pending}) => ({nodes, pods, pending}))(bayplan.state.bays)")
    document = site.board.document()
    assert shown == {table: document[table] for table in ("nodes", "pods", "pending")}


def test_a_stream_that_was_cut_is_taken_up_where_it_ended(tab: Tab, site: Site) -> None:
    tab.run("bayplan.state.stream.onerror()")
    assert "server does not answer" in tab.text("#problem")
    with site.lock:
        site.cluster.add(make_pod("more").req(cpu="1").node("n2"))
    tab.wait("bayplan.state.bays.counts.pods === 4")
    assert tab.run("document.getElementById('problem').hidden")
    pods: Any = tab.run("bayplan.state.bays.pods")
    assert pods == site.board.document()["pods"]


def test_that_the_picture_may_be_old_is_said_as_long_as_it_may(tab: Tab, site: Site) -> None:
    site.board.trouble = lambda: "Pod: no route\nto host"
    tab.wait("!document.getElementById('problem').hidden")
    assert tab.text("#problem") == "The picture may be an old one: Pod: no route to host"
    site.board.trouble = str
    tab.wait("document.getElementById('problem').hidden")


def test_a_cluster_without_nodes_is_shown_too(browser: Tab) -> None:
    with served() as site:
        with site.lock:
            site.cluster.remove(*(make_node(name) for name in ("n1", "n2", "n10")))
        browser.faults.clear()
        browser.open(site.session.url)
        browser.wait(f"{GENERATION} > 0")
        assert browser.text("#summary").startswith("0 nodes, 0 Pods on them, 2 wait")
        assert browser.faults == []
        browser.open("about:blank#")


def test_dark_mode_is_dark_and_the_text_on_it_is_not(tab: Tab) -> None:
    light = tab.run("getComputedStyle(document.body).backgroundColor")
    tab.prefer(color_scheme="dark")
    empty = pixel(tab, "n1", 0.5, 0.9)
    assert light == "rgb(255, 255, 255)"
    assert max(empty) < 60
    legend = "document.querySelector('#legend canvas').getContext('2d')"
    assert max(tab.run(f"[...{legend}.getImageData(5, 5, 1, 1).data].slice(0, 3)")) < 90
    colours = tab.run(
        "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    ink, paper = ([int(part) for part in text[4:-1].split(", ")] for text in colours)
    assert min(ink) - max(paper) > 150


def test_categories_differ_without_colour(tab: Tab) -> None:
    """Each has lines in other directions: no two are the same picture in grey."""
    script = """(() => Array.from({length: 8}, (_, category) => {
      const canvas = Object.assign(document.createElement("canvas"), {width: 16, height: 16});
      bayplan.picture.swatch(canvas, {category});
      const {data} = canvas.getContext("2d").getImageData(0, 0, 16, 16);
      const ground = Math.max(...data.filter((_, i) => i % 4 === 1));
      return data.filter((_, i) => i % 4 === 1).map(green => green < ground * 0.8 ? 1 : 0).join("");
    }))()"""
    masks = tab.run(script)
    assert len(set(masks)) == 8
    steps = tab.run("""(() => Array.from({length: 8}, (_, step) => {
      const canvas = document.createElement("canvas");
      bayplan.picture.swatch(canvas, {step});
      const [r, g, b] = canvas.getContext("2d").getImageData(0, 0, 1, 1).data;
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }))()""")
    assert steps == sorted(steps, reverse=True)


def test_nothing_moves_by_itself(tab: Tab) -> None:
    assert tab.run("document.getAnimations().length") == 0
    css = tab.run("fetch('/static/view.css').then(answer => answer.text())")
    assert "transition" not in css
    assert "animation" not in css


def test_a_browser_without_canvas_is_told_where_the_text_is(browser: Tab, site: Site) -> None:
    script = "HTMLCanvasElement.prototype.getContext = () => null"
    added = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    browser.open(site.session.url)
    browser.wait("!document.getElementById('problem').hidden")
    assert "bayplan view -o text" in browser.text("#problem")
    browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    browser.open("about:blank#")
