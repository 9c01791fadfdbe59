"""``bayplan explain``: why each pending Pod of a file goes where it goes, or nowhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.cli import offline, plugins
from bayplan.cli.explain_text import print_verdict
from bayplan.cli.offline import Output
from bayplan.simulation import Cluster, ClusterFileError
from bayplan.simulation.explain import explain as explain_pod
from bayplan.simulation.offline import judged

Verdict = dict[str, Any]

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    file: offline.FileOption,
    config: plugins.ConfigOption = None,
    pod: Annotated[
        str | None, typer.Option(help="Only this Pod: namespace/name, or a name in default.")
    ] = None,
    plugin_dir: plugins.PluginDirOption = None,
    output: offline.OutputOption = Output.TEXT,
    top: Annotated[
        int, typer.Option(min=1, help="As text: how many nodes to show with their scores.")
    ] = 5,
) -> None:
    """Say why each pending Pod of a file goes where it goes, or nowhere.

    Each is judged on the cluster as the file gives it. With --config, Pods are judged by the
    profile that they ask for, without it all of them by the default profile.
    """
    with offline.reporting():
        cluster, core = offline.load(file, config, plugin_dir)
        verdicts = _explain(file, cluster, core, pod)
    offline.print_notes(cluster)
    if output is not Output.TEXT:
        offline.print_data(verdicts, output)
        return
    console = offline.console()
    for verdict in verdicts:
        print_verdict(console, verdict, top)
    if not verdicts:
        console.print("There is no pending Pod.")


def explain_file(
    path: Path,
    config: Path | None = None,
    pod: str | None = None,
    plugin_dirs: Iterable[Path] | None = None,
) -> list[Verdict]:
    """What ``bayplan explain -o json`` prints.

    Raises:
        ClusterFileError: there is nothing to judge in the file.
        typer.Exit: the configuration or a plugin cannot be used; the errors are printed.
    """
    cluster, core = offline.load(path, config, plugin_dirs)
    return _explain(path, cluster, core, pod)


def _explain(path: Path, cluster: Cluster, core: Core, only: str | None) -> list[Verdict]:
    pods = judged(cluster, core)
    if only is not None:
        pods = [_named(path, cluster, pods, only if "/" in only else f"default/{only}")]
    return [explain_pod(core, pod) for pod in pods]


def _named(path: Path, cluster: Cluster, pods: list[Pod], key: str) -> Pod:
    found = next((pod for pod in pods if pod.key == key), None)
    if found is not None:
        return found
    known: Pod | None = next((pod for pod in cluster.objects["Pod"] if pod.key == key), None)
    why = ""
    if known is not None and known.terminal:
        why = f": it has ended ({known.status.phase})"
    elif known is not None and known.node_name:
        why = f": it is on {known.node_name}"
    elif known is not None:
        why = f": no profile is called {known.spec.scheduler_name}"
    raise ClusterFileError(f"{path}: there is no pending Pod {key} to judge{why}")
