"""``bayplan explain``: why each pending Pod goes where it goes, or nowhere, node by node.

Of files it judges by the configuration that it is given. Of a running cluster the running scheduler
answers (`bayplan.explain.why`), by its configuration, plugins and state; with ``--config`` Pods are
judged here, from what the API server has. It changes nothing.

``bayplan explain podgroup/NAME`` says it of a group of Pods: its plan, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer

from bayplan.api.kinds import POD
from bayplan.api.pod import Pod
from bayplan.api.selectors import Predicate, SelectorError, parse
from bayplan.app.assembly import Core
from bayplan.cli import asking, autoscaler_events, explain_live, live, offline, plugins
from bayplan.cli.asking import Subject
from bayplan.cli.explain_text import folded, print_group, print_verdicts
from bayplan.cli.offline import Form
from bayplan.client import kubeconfig as credentials
from bayplan.client.connection import Connection
from bayplan.client.errors import ApiError, Forbidden
from bayplan.client.http import Http
from bayplan.client.kubeconfig import Kubeconfig, KubeconfigError
from bayplan.explain.autoscaler import autoscaler as cause_of
from bayplan.explain.autoscaler import condition_reason
from bayplan.explain.explanation import explain as explain_pod
from bayplan.explain.group import GroupExplainer
from bayplan.simulation import ClusterFileError, LoadedCluster
from bayplan.simulation.checks import DEFAULT_NAMESPACE
from bayplan.simulation.offline import judged

Verdict = dict[str, Any]

UNKNOWN = 1
"""Exit code: the scheduler has never seen what was asked about."""

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    file: offline.FileOrClusterOption = None,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="POD|KIND/NAME",
            help="A Pod: NAME or pod/NAME. A group: podgroup/NAME; of one without a PodGroup "
            "job/NAME, jobset/NAME, leaderworkerset/NAME-INDEX. Without it all pending Pods.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="The name, after a kind alone: group train.", show_default=False),
    ] = None,
    config: plugins.ConfigOption = None,
    pod: Annotated[
        str | None,
        typer.Option(
            help="Only this Pod: namespace/name, or a name in the namespace of -n. A running Pod "
            "is judged as if it were pending."
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Only Pods of this namespace; of files, also the namespace of objects that name "
            "none. Without it all Pods of files, and in a cluster those of the kubeconfig's "
            "context.",
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Pods of all namespaces.")
    ] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="Only Pods with these labels, as kubectl -l.")
    ] = "",
    plugin_dir: plugins.PluginDirOption = None,
    feature_gates: plugins.FeatureGatesOption = None,
    output: offline.FormOption = Form.TEXT,
    top: Annotated[
        int, typer.Option(min=1, help="As text: how many nodes to show with their scores.")
    ] = 5,
    autoscaler: Annotated[
        bool,
        typer.Option("--autoscaler", help="Say only why no node is added for each Pod that waits."),
    ] = False,
    server: asking.ServerOption = None,
    lease: asking.LeaseOption = asking.LEASE,
    authority: asking.AuthorityOption = None,
    insecure: asking.InsecureOption = False,
    kubeconfig: live.KubeconfigOption = None,
    context: live.ContextOption = None,
) -> None:
    """Say why each pending Pod goes where it goes, or nowhere.

    Each is judged on the cluster as the files give it, or by the running
    scheduler. With --config, Pods are judged here by the profile that they
    ask for; files without it all by the default profile.
    """
    where = Kubeconfig(kubeconfig, context)
    ours = namespace
    if file is None and namespace is None and not everywhere:
        ours = credentials.namespace(where)
    if everywhere:
        ours = None
    about = _about(subject, name, pod, namespace or ours or DEFAULT_NAMESPACE)
    if file is None and not (config or plugin_dir or feature_gates):
        with _answering():
            parts = server, lease, authority, where
            scheduler = asking.connect(*parts, insecure=insecure)
            if about is None:
                api_server = Http(Connection.load(where))
                subjects = list(explain_live.pending(api_server, ours or "", selector))
            else:
                subjects = [(about, "")]
            answers = [explain_live.verdict(scheduler, one) for one, _ in subjects]
            owners = {one.key: owner for one, owner in subjects}
            if autoscaler:
                api_server = Http(Connection.load(where))
                causes = [
                    {"pod": one.key, "autoscaler": _cause(api_server, one, answer)}
                    for (one, _), answer in zip(subjects, answers, strict=True)
                    if answer is not None
                ]
                _print_causes(causes, output)
                return
        verdicts = [answer for answer in answers if answer is not None]
        if about is not None and not verdicts:
            typer.echo(f"the scheduler knows no {'group' if about.is_group else 'Pod'} {about.key}")
            raise typer.Exit(UNKNOWN)
        _print(verdicts, output, top, about, owners)
        return
    matches = _matching(selector)
    if file is None:
        typer.echo(offline.JUDGED_HERE, err=True)
    with offline.reporting():
        only = about.key if about is not None and not about.is_group else None
        cluster, core = offline.load(
            file, config, plugin_dir, namespace or DEFAULT_NAMESPACE, only, feature_gates, where
        )
        if about is not None and about.is_group:
            verdicts = [_of_group(cluster, core, about.key)]
        else:
            verdicts = _explain(
                cluster,
                core,
                only,
                lambda p: ours in (None, p.namespace) and matches(p.labels),
                details=not output.is_data,
            )
    offline.print_notes(cluster)
    if autoscaler:
        pods = {pod.key: pod for pod in cluster.pending}
        causes = [
            {"pod": verdict["pod"], "autoscaler": _judged_cause(core, pods, verdict)}
            for verdict in verdicts
            if "pod" in verdict
        ]
        _print_causes(causes, output)
        offline.end(cluster, verdicts)
        return
    owners = {pod.key: _owner(pod) for pod in cluster.pending}
    _print(verdicts, output, top, about, owners, sure=file is not None)
    offline.end(cluster, verdicts)


NO_CAUSE = "nothing that is known stands against a new node"


def _cause(api_server: Http, about: Subject, answer: Verdict) -> Verdict:
    """Why no node is added: by the scheduler, else by what the autoscaler says."""
    running = answer["running"]
    if running.get("state") != "Pending":
        return {"text": running["sentence"]}
    if "best" in answer:
        return {"text": "it fits on a node that is there"}
    known: Verdict = running.get("autoscaler") or autoscaler_events.said(api_server, about)
    return known or {"text": NO_CAUSE}


def _judged_cause(core: Core, pods: dict[str, Pod], verdict: Verdict) -> Verdict:
    """The same of files, which say nothing of autoscalers."""
    if "best" in verdict:
        return {"text": "it fits on a node that is there"}
    pod = pods[verdict["pod"]]
    reason = condition_reason(pod)
    if not reason and "preEnqueue" not in verdict:
        reason = "Unschedulable"  # that is what an attempt would write
    framework = core.profiles[pod.spec.scheduler_name]
    return cause_of(core.world, framework, pod, reason, names=True) or {"text": NO_CAUSE}


def _print_causes(causes: list[Verdict], output: Form) -> None:
    if output.is_data:
        offline.print_data(causes, output)
        return
    with offline.printing(output, "bayplan explain --autoscaler") as console:
        for one in causes:
            console.print(f"{one['pod']}: {one['autoscaler']['text']}", soft_wrap=True)


def _about(
    subject: str | None, name: str | None, pod: str | None, namespace: str
) -> Subject | None:
    """What is asked about; None for all Pods."""
    if pod is not None:
        return asking.subject(pod, namespace)
    if subject is None:
        return None
    if subject == "group" and name is None:
        raise typer.BadParameter("explain group needs the name of a group", param_hint="NAME")
    return asking.subject(subject if name is None else f"{subject}/{name}", namespace)


def _matching(selector: str) -> Predicate:
    try:
        return parse(selector)
    except SelectorError as error:
        raise typer.BadParameter(str(error), param_hint="-l") from None


@contextmanager
def _answering() -> Iterator[None]:
    """Around questions to the scheduler: what went wrong ends the command with 2."""
    try:
        yield
    except Forbidden as error:
        plugins.unusable(f"{error}; bayplan why names what you may see")
    except (ApiError, KubeconfigError, msgspec.DecodeError) as error:
        here = "with --config FILE Pods are judged here, by that configuration"
        plugins.unusable(f"the running scheduler cannot be asked: {error}; {here}")


def _print(
    verdicts: list[Verdict],
    output: Form,
    top: int,
    about: Subject | None,
    owners: dict[str, str],
    *,
    sure: bool = True,
) -> None:
    is_group = about is not None and about.is_group
    if output.is_data:
        for verdict in verdicts:
            verdict.pop("details", None)
        offline.print_data(verdicts[0] if is_group else folded(verdicts, owners), output)
        return
    with offline.printing(output, "bayplan explain") as console:
        if is_group:
            print_group(console, verdicts[0])
        elif verdicts:
            print_verdicts(console, verdicts, top, owners=owners, sure=sure)
        else:
            console.print("There is no pending Pod.")


def _of_group(cluster: LoadedCluster, core: Core, key: str) -> Verdict:
    verdict = _explainer(core).of_group(key, cluster.objects[POD])
    if verdict is None:
        raise ClusterFileError(f"there is no Pod of a group {key}")
    return verdict


def _owner(pod: Pod) -> str:
    kind, name = pod.controller
    return f"{kind.rpartition('/')[2]} {name}" if name else ""


def _explainer(core: Core) -> GroupExplainer:
    return GroupExplainer(core.profiles, core.world, core.placers)


def _explain(
    cluster: LoadedCluster,
    core: Core,
    only: str | None,
    matches: Callable[[Pod], bool],
    *,
    details: bool,
) -> list[Verdict]:
    groups = _explainer(core)

    def verdict_on(pod: Pod) -> Verdict:
        framework = core.profiles[pod.spec.scheduler_name]
        verdict = explain_pod(framework, core.placers, pod, details=details)
        if group := groups.of_pod(pod):
            verdict["group"] = group
        return verdict

    if only is None:
        return [verdict_on(pod) for pod in judged(cluster, core) if matches(pod)]
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
