"""``bayplan explain``: why each pending Pod goes where it goes, or nowhere.

It reads files, or the running cluster; whatever it reads, it changes nothing.

``bayplan explain group NAME`` says it of a group of Pods: its plan, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.app.assembly import Core
from bayplan.cache.inferred_groups import OWNERS
from bayplan.cli import live, offline, plugins
from bayplan.cli.explain_text import print_group, print_verdict
from bayplan.cli.offline import Output
from bayplan.explain.explanation import explain as explain_pod
from bayplan.explain.group import GroupExplainer
from bayplan.simulation import ClusterFileError, LoadedCluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.offline import judged

Verdict = dict[str, Any]

app = typer.Typer(add_completion=False)


class Subject(StrEnum):
    """What else than Pods can be explained."""

    GROUP = "group"


@app.command()
def explain(
    file: offline.FileOrClusterOption = None,
    subject: Annotated[
        Subject | None,
        typer.Argument(help="group: explain a group of Pods instead of Pods.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Of the group: namespace/name, or a name in the namespace of -n; of one without a "
            "PodGroup: namespace/KIND/name or KIND/name, such as Job/train.",
            show_default=False,
        ),
    ] = None,
    config: plugins.ConfigOption = None,
    pod: Annotated[
        str | None,
        typer.Option(
            help="Only this Pod: namespace/name, or a name in the namespace of -n. A running Pod "
            "is judged as if it were pending."
        ),
    ] = None,
    namespace: offline.NamespaceOption = DEFAULT_NAMESPACE,
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    output: offline.OutputOption = Output.TEXT,
    top: Annotated[
        int, typer.Option(min=1, help="As text: how many nodes to show with their scores.")
    ] = 5,
    kubeconfig: live.KubeconfigOption = None,
) -> None:
    """Say why each pending Pod goes where it goes, or nowhere.

    Each is judged on the cluster as the files give it, or as the API server
    has it now. With --config, Pods are judged by the profile that they ask
    for, without it all of them by the default profile.
    """
    only = _key(pod, namespace)

    def load() -> tuple[LoadedCluster, Core]:
        return offline.load(file, config, plugin_dir, namespace, only, feature_gates, kubeconfig)

    if subject is not None:
        _explain_group(load, _key(name, namespace), output)
        return
    with offline.reporting():
        cluster, core = load()
        verdicts = _explain(cluster, core, only, details=output is Output.TEXT)
    offline.print_notes(cluster)
    if output is Output.TEXT:
        console = offline.console()
        for verdict in verdicts:
            print_verdict(console, verdict, top)
        if not verdicts:
            console.print("There is no pending Pod.")
    else:
        offline.print_data(verdicts, output)
    offline.end(cluster, verdicts)


def _explain_group(
    load: Callable[[], tuple[LoadedCluster, Core]], key: str | None, output: Output
) -> None:
    if key is None:
        raise typer.BadParameter("explain group needs the name of a group", param_hint="NAME")
    with offline.reporting():
        cluster, core = load()
        verdict = _explainer(core).of_group(key, cluster.objects[POD])
        if verdict is None:
            raise ClusterFileError(f"there is no Pod of a group {key}")
    offline.print_notes(cluster)
    if output is Output.TEXT:
        print_group(offline.console(), verdict)
    else:
        offline.print_data(verdict, output)
    offline.end(cluster, [verdict])


def _explainer(core: Core) -> GroupExplainer:
    return GroupExplainer(core.profiles, core.world, core.placers)


def _key(name: str | None, namespace: str) -> str | None:
    """With the namespace, which the kind of an inferred group is not."""
    has_none = name is not None and ("/" not in name or name.partition("/")[0] in OWNERS)
    return f"{namespace}/{name}" if name and has_none else name


def _explain(
    cluster: LoadedCluster, core: Core, only: str | None, *, details: bool = False
) -> list[Verdict]:
    groups = _explainer(core)

    def verdict_on(pod: Pod) -> Verdict:
        framework = core.profiles[pod.spec.scheduler_name]
        verdict = explain_pod(framework, core.placers, pod, details=details)
        if group := groups.of_pod(pod):
            verdict["group"] = group
        return verdict

    if only is None:
        return [verdict_on(pod) for pod in judged(cluster, core)]
    verdict = verdict_on(_named(cluster, core, only))
    return [{**verdict, "runsOn": cluster.runs_on}] if cluster.runs_on else [verdict]


def _named(cluster: LoadedCluster, core: Core, key: str) -> Pod:
    pending = next((pod for pod in cluster.pending if pod.key == key), None)
    if pending is not None and pending.spec.scheduler_name in core.profiles:
        return pending
    other: Pod | None = next((pod for pod in cluster.objects[POD] if pod.key == key), None)
    why = ""
    if other is not None and other.terminal:
        why = f": it has ended ({other.status.phase})"
    elif other is not None:
        why = f": no profile is called {other.spec.scheduler_name}"
    notes = [f"\n{line}" for line in cluster.notes.lines()]
    file = f"{cluster.notes.file}: " if cluster.notes.file else ""
    raise ClusterFileError(f"{file}there is no Pod {key} to judge{why}{''.join(notes)}")
