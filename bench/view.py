"""`python -m bench.view`: how soon the page shows a cluster, how it moves, and what changes weigh.

    python -m bench.view --nodes 5000 --pods 52000
    python -m bench.view --nodes 50000 --pods 500000 --rate 0
    python -m bench.view --picture docs/images/view.png      the picture of docs/view.md alone

A dump is written, `bayplan view -f` serves it, and Debian's Chromium opens it without a window and
without a GPU. Times are by the browser's clock: from the start of the navigation until the first
frame with nodes, which includes the whole way through the server, not the reading of the dump.
Changes are measured beside that: bindings at a rate, and the bytes of the deltas.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from e2e import chromium
from e2e.chromium import Tab
from rich.console import Console

from bayplan.testing import make_node, make_pod
from bayplan.testing.cluster import Cluster
from bayplan.view.board import SECONDS, Board

Json = dict[str, Any]

ZONES, RACKS = "abc", 20
LOOKS = 10
TEMPLATES = 500
"""Owners of Pods, each with a request of its own."""
SAVED = "Number(document.body.dataset.generation ?? 0) > 0 && bayplan.picture.painted"
FRAMES = """new Promise((done) => {
  const {picture} = bayplan, from = performance.now();
  let [frames, side] = [0, 1];
  picture.zoomBy(MULTIPLE / picture.zoom);
  const step = () => {
    picture.pan(side * 7, side * 3);
    if (picture.left <= 0 || frames % 60 === 59) side = -side;
    frames += 1;
    const passed = performance.now() - from;
    if (passed < 3000) requestAnimationFrame(step);
    else done(frames / passed * 1000);
  };
  requestAnimationFrame(step);
})"""

console = Console()


def main(
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    pods: Annotated[int, typer.Option(min=1)] = 52_000,
    waiting: Annotated[int, typer.Option(help="Pods that wait.", min=0)] = 200,
    rate: Annotated[int, typer.Option(help="Bindings a second; 0 for none.")] = 500,
    picture: Annotated[Path | None, typer.Option(help="Write the picture of the docs.")] = None,
) -> None:
    """Measure the page, or take its picture."""
    with tempfile.TemporaryDirectory() as folder:
        if picture is not None:
            _picture(Path(folder), picture)
            return
        dump = Path(folder) / "dump.json"
        with dump.open("w") as file:
            json.dump({"kind": "List", "items": list(_objects(nodes, pods, waiting))}, file)
        _page(dump, Path(folder))
    if rate:
        _changes(nodes, pods, rate)


def _objects(nodes: int, pods: int, waiting: int) -> Iterator[Json]:
    draw = random.Random(1)
    for number in range(nodes):
        yield _node(number, {"cpu": "32", "memory": "128Gi", "pods": "110"})
    for number in range(pods + waiting):
        template = draw.randrange(TEMPLATES)
        cpu = f"{draw.choice((100, 500, 1000, 2000))}m" if number < pods else "33"
        pod = _pod(f"app-{template}-{number}", f"team-{template % 40}", f"app-{template}", cpu)
        if number < pods:
            pod["spec"]["nodeName"] = f"node-{draw.randrange(nodes):05d}"
        yield pod


def _node(number: int, offered: Json, racks: int = RACKS, **spec: Any) -> Json:
    zone, rack = ZONES[number % 3], number // 3 % racks
    labels = {"zone": f"eu-1{zone}", "rack": f"r{rack}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number:05d}",
            "creationTimestamp": f"2026-01-{1 + number % 28:02d}T00:00:00Z",
            "labels": {f"topology.kubernetes.io/{name}": value for name, value in labels.items()},
        },
        "spec": spec,
        "status": {"allocatable": offered},
    }


def _pod(name: str, namespace: str, owner: str, cpu: str, **more: Any) -> Json:
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner}
    requests = {"cpu": cpu, "memory": "1Gi", **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "creationTimestamp": f"2026-02-01T{len(name):02d}:{sum(map(ord, name)) % 60:02d}:00Z",
            "ownerReferences": [{**controller, "controller": True}],
        },
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        },
    }


@contextmanager
def _served(dump: Path, folder: Path) -> Iterator[tuple[str, float]]:
    """The printed address, and the seconds until then."""
    command = [sys.executable, "-m", "bayplan", "view", "-f", dump.name]
    began = time.perf_counter()
    with (
        (folder / "view.log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), time.perf_counter() - began
        finally:
            process.terminate()


def _page(dump: Path, folder: Path) -> None:
    with _served(dump, folder) as (url, seconds):
        console.print(f"dump of {dump.stat().st_size / 1e6:.0f} MB read in {seconds:.1f} s")
        for what in ("first page", "second page"):
            with chromium.opened(folder / what.replace(" ", "-"), 2560, 1440) as tab:
                if what == "first page":
                    tab.open(url)
                    site, cookie = url.partition("#")[0], tab.send("Network.getAllCookies")
                else:
                    for one in cookie["cookies"]:
                        tab.send(
                            "Network.setCookie", name=one["name"], value=one["value"], url=site
                        )
                    tab.open(site)
                _say(tab, what)


def _say(tab: Tab, what: str) -> None:
    painted = tab.wait(SAVED)
    sizes = tab.run("performance.getEntriesByType('resource').map(one => one.transferSize)")
    first = tab.run("performance.getEntriesByType('navigation')[0].transferSize")
    cell = tab.run("bayplan.picture.cell")
    console.print(
        f"{what}: first paint of nodes after {painted:.0f} ms, {(sum(sizes) + first) / 1e3:.0f} kB,"
        f" cells of {cell} pixels"
    )
    frames = {zoom: tab.run(FRAMES.replace("MULTIPLE", str(zoom))) for zoom in (1.05, 3, 8)}
    shown = ", ".join(f"{rate:.0f} at zoom {zoom}" for zoom, rate in frames.items())
    console.print(f"{what}: frames a second while it moves: {shown}")


def _changes(nodes: int, pods: int, rate: int) -> None:
    cluster, now = Cluster(), [0.0]
    cluster.add(*(make_node(f"node-{i:05d}").capacity(cpu="32", pods=110) for i in range(nodes)))
    placed = [
        make_pod(f"app-{i}").label("app", f"app-{i % TEMPLATES}").req(cpu="1", memory="1Gi")
        for i in range(pods)
    ]
    cluster.add(*(pod.node(f"node-{i % nodes:05d}") for i, pod in enumerate(placed)))
    board = Board(cluster.core, lambda answer: answer(), clock=lambda: now[0])
    generation, seconds, draw = board.look(), list[float](), random.Random(2)
    plain, packed, packer = 0, 0, zlib.compressobj(wbits=31)
    for look in range(2 * LOOKS):
        if look % 2 == 0:
            new = [
                make_pod(f"new-{look}-{i}").req(cpu="1", memory="1Gi")
                for i in range(int(rate * 2 * SECONDS))
            ]
        for pod in new:
            cluster.add(pod if look % 2 == 0 else pod.node(f"node-{draw.randrange(nodes):05d}"))
        now[0] += SECONDS
        began = time.process_time()
        board.look()
        seconds.append(time.process_time() - began)
        for delta in board.since(generation) or ():
            plain += len(delta)
            packed += len(packer.compress(delta) + packer.flush(zlib.Z_SYNC_FLUSH))
            generation += 1
    passed = 2 * LOOKS * SECONDS
    console.print(
        f"{rate} Pods a second that come, wait and are bound: {plain / passed / 1e3:.0f} kB"
        f" a second, {packed / passed / 1e3:.0f} kB gzipped; a look costs"
        f" {statistics.median(seconds) * 1e3:.0f} ms of CPU"
    )


def _picture(folder: Path, path: Path) -> None:
    dump = folder / "cluster.json"
    dump.write_text(json.dumps({"kind": "List", "items": list(_small())}))
    with (
        _served(dump, folder) as (url, _),
        chromium.opened(folder / "chromium", 1280, 640) as tab,
    ):
        tab.open(url)
        tab.wait(SAVED)
        tab.run("document.getElementById('lens').value = 'queue'")
        tab.run("document.getElementById('lens').dispatchEvent(new Event('change'))")
        _shoot(tab, path)
        tab.press("p", "Enter")
        tab.wait("!document.getElementById('answer').hidden")
        tab.press("n")
        tab.wait("bayplan.state.lens.id === 'why-not'")
        _shoot(tab, path.with_name(f"{path.stem}-why-not.png"))
        tab.press("Escape")
        tab.run("document.getElementById('lose').selectedIndex = 1")
        tab.run("document.getElementById('like').value = 'node-00013'")
        tab.run("document.getElementById('number').value = 6")
        tab.run("document.getElementById('suppose').click()")
        tab.wait("document.querySelector('#answer h2')?.innerText.includes(' lost')")
        tab.run("bayplan.picture.select(-1)")
        _shoot(tab, path.with_name(f"{path.stem}-what-if.png"))


def _shoot(tab: Tab, path: Path) -> None:
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(tab.screenshot())
    console.print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def _small() -> Iterator[Json]:
    """72 nodes in 12 racks, with and without GPUs, three tenants, Pods that wait."""
    draw, gpu = random.Random(4), "nvidia.com/gpu"
    for team in ("shop", "bank", "lab"):
        labels = {"kubernetes.io/metadata.name": team}
        meta = {"name": team, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        guaranteed = {"cpu": 200, gpu: 24 if team == "lab" else 0}
        spec = {"namespaceSelector": {"matchLabels": labels}, "guaranteed": guaranteed}
        if team == "bank":
            spec["limit"] = {"cpu": 300}
        meta = {"name": team}
        yield {
            "apiVersion": "bayplan.dev/v1alpha1",
            "kind": "Queue",
            "metadata": meta,
            "spec": spec,
        }
    for number in range(72):
        offered = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        has_gpus = number // 3 % 4 == 0
        taints = [{"key": gpu, "effect": "NoSchedule"}] if has_gpus else []
        if has_gpus:
            offered[gpu] = "8"
        yield _node(number, offered, 4, taints=taints, unschedulable=number == 40)
        for index in range(draw.randint(1, 6)):
            team = "lab" if has_gpus and index < 4 else draw.choice(("shop", "bank"))
            more = {gpu: draw.choice(("1", "2"))} if team == "lab" else {}
            pod = _pod(
                f"{team}-{number}-{index}", team, f"{team}-{index}", draw.choice("1248"), **more
            )
            pod["spec"]["nodeName"] = f"node-{number:05d}"
            yield pod
    yield _pod("train-0", "lab", "train", "8", **{gpu: "8"})
    for name, team, cpu in (
        ("report", "bank", "48"),
        ("search", "shop", "30"),
        ("web", "shop", "2"),
    ):
        pod = _pod(name, team, name, cpu)
        pod["spec"]["tolerations"] = []
        yield pod


if __name__ == "__main__":
    typer.run(main)
