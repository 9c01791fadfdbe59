"""What goes wrong around bayplan: it says so plainly, waits, and goes on when things are right."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest
import yaml

from e2e.cluster import CONFIG, DEPLOY, OTHER, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, token_kubeconfig, wait_until
from e2e.provider.choose import chosen
from e2e.proxy import Proxy

pytestmark = pytest.mark.e2e


def not_ready(bayplan: Bayplan) -> str:
    """What /readyz says, or "" if bayplan is ready."""
    try:
        bayplan.endpoint.get("/readyz")
    except HTTPError as error:
        if error.code == 503:
            return error.read().decode()
        raise
    return ""


def is_idle(bayplan: Bayplan) -> bool:
    """Whether it uses next to no CPU while it waits for better times."""
    return psutil.Process(bayplan.pid).cpu_percent(interval=2) < 25


def says_no_traceback(bayplan: Bayplan) -> bool:
    text = bayplan.log.read_text()
    return "Traceback" not in text and '"exception"' not in text


def ends(bayplan: Bayplan) -> str:
    """Run bayplan with something that cannot work: exit code 2, and a plain message."""
    with pytest.raises(Exception, match="ended at its start"):
        bayplan.start()
    assert bayplan.wait(1) == 2
    text: str = bayplan.log.read_text()
    assert "Traceback" not in text
    return text


def test_pods_that_wait_while_the_api_server_is_away_are_placed_when_it_is_back(
    own: Cluster,
) -> None:
    bayplan = own.bayplan(own.config()).start()
    own.nodes(NodeSpec("n1", cpu="1"))
    own.create(pod("first", cpu="1"), pod("second", cpu="1"))
    wait_until(lambda: sum(map(bool, map(own.node_of, ("first", "second")))) == 1, SOON, "one")
    placed, waiting = sorted(("first", "second"), key=lambda name: not own.node_of(name))
    own.wait_condition(waiting)
    own.plane.parts["kube-apiserver"].kill()
    wait_until(lambda: "Pod: " in not_ready(bayplan), SOON, "/readyz to name the Pods")
    assert is_idle(bayplan)
    own.plane.parts["kube-apiserver"].start()
    own.delete(placed)
    own.create(pod("third", cpu="100"))
    own.wait_bound(waiting)
    own.wait_condition("third")
    wait_until(lambda: not not_ready(bayplan), SOON, "/readyz says yes")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    assert own.overcommitted() == {}
    assert says_no_traceback(bayplan)


def test_many_pods_are_bound_once_each_though_the_api_server_is_killed_meanwhile(
    own: Cluster,
) -> None:
    bayplan = own.bayplan(own.config(clientConnection={"qps": 200, "burst": 1})).start()
    own.nodes(*(NodeSpec(f"n{i}", cpu="4") for i in range(10)))
    names = own.create(*(pod(f"p{i}", cpu="100m") for i in range(300)))
    bound = "Successfully bound pod to node"
    wait_until(lambda: len(bayplan.lines(bound)) > 20, SOON, "some are bound")
    own.plane.parts["kube-apiserver"].kill()
    own.plane.parts["kube-apiserver"].start()
    own.wait_bound(*names)
    assert own.overcommitted() == {}
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    assert says_no_traceback(bayplan)


def test_a_watch_that_is_cut_goes_on_where_it_was(
    own: Cluster, proxy: Proxy, tmp_path: Path
) -> None:
    bayplan = own.bayplan(own.config(), kubeconfig=proxy.kubeconfig(tmp_path / "k")).start()
    own.nodes(NodeSpec("n1"))
    own.create(pod("before"))
    own.wait_bound("before")
    proxy.cut()
    own.create(pod("during"))
    own.delete("before")
    wait_until(lambda: not_ready(bayplan), SOON, "/readyz says no")
    proxy.mend()
    own.wait_bound("during")
    wait_until(lambda: not not_ready(bayplan), SOON, "/readyz says yes")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    assert bayplan.lines("version too old, listing again") == []


def test_a_version_that_is_too_old_leads_to_a_fresh_list(
    own: Cluster, proxy: Proxy, tmp_path: Path
) -> None:
    bayplan = own.bayplan(own.config(), kubeconfig=proxy.kubeconfig(tmp_path / "k")).start()
    own.nodes(NodeSpec("n1"))
    own.create(pod("before"))
    own.wait_bound("before")
    proxy.cut()
    own.create(pod("during"))
    own.delete("before")
    # Its watch cache is gone with it, and with that what happened before.
    own.plane.parts["kube-apiserver"].kill()
    own.plane.parts["kube-apiserver"].start()
    proxy.mend()
    own.wait_bound("during")
    wait_until(lambda: not not_ready(bayplan), SOON, "/readyz says yes")
    wait_until(bayplan.holds_what_the_api_server_has, SOON, "no difference to the API server")
    assert bayplan.lines("version too old, listing again")


def test_an_api_server_that_streams_no_lists_is_listed_page_by_page(
    new_cluster: Callable[..., Cluster],
) -> None:
    if not chosen().owns_parts:
        pytest.skip("takes an API server of its own")
    with ExitStack() as stack:
        own = new_cluster(stack, "--feature-gates=WatchList=false")
        own.apply(DEPLOY / "crds")
        crd = "crd/podgroups.scheduling.x-k8s.io"
        own.kubectl("wait", "--for=condition=established", crd, f"--timeout={SOON}s")
        own.nodes(NodeSpec("n1"))
        own.create(pod("before"))
        bayplan = own.bayplan().start()
        own.wait_bound("before")
        own.create(pod("after"))
        own.wait_bound("after")
        bayplan.kill()


def test_an_api_server_that_nobody_can_reach_is_waited_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    (tmp_path / "k").write_text(yaml.safe_dump(document))
    bayplan = cluster.bayplan(kubeconfig=tmp_path / "k", ready="/livez").start()

    def why_not() -> str:
        text = not_ready(bayplan)
        return text if "Node: " in text else ""

    text = wait_until(why_not, SOON, "/readyz says no")
    assert f"127.0.0.1:{port}" in text
    assert bayplan.endpoint.answers("/livez")
    assert is_idle(bayplan)
    assert says_no_traceback(bayplan)
    bayplan.stop(grace=SOON)
    assert bayplan.wait(1) == 0


def test_a_scheduler_without_permissions_says_what_is_forbidden_and_waits_for_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    token = cluster.token("default", SYSTEM)
    kubeconfig = token_kubeconfig(tmp_path / "k", cluster.plane.kubeconfig, token)
    config = cluster.config(OTHER)
    bayplan = cluster.bayplan(config, kubeconfig=kubeconfig, ready="/livez").start()
    forbidden = 'resource "pods" in API group "" at the cluster scope'
    wait_until(lambda: forbidden in not_ready(bayplan), SOON, "/readyz says what is forbidden")
    assert is_idle(bayplan)
    cluster.kubectl("create", "clusterrolebinding", "e2e-late", "--clusterrole=bayplan",
                    f"--serviceaccount={SYSTEM}:default")  # fmt: skip
    try:
        wait_until(lambda: not not_ready(bayplan), SOON, "/readyz says yes")
    finally:
        cluster.kubectl("delete", "clusterrolebinding", "e2e-late")
    assert says_no_traceback(bayplan)
    bayplan.stop(grace=SOON)


def test_a_token_that_is_wrong_is_told_as_such(cluster: Cluster, tmp_path: Path) -> None:
    kubeconfig = token_kubeconfig(tmp_path / "k", cluster.plane.kubeconfig, "nonsense")
    bayplan = cluster.bayplan(kubeconfig=kubeconfig, ready="/livez").start()
    wait_until(lambda: "Unauthorized" in not_ready(bayplan), SOON, "/readyz says why")
    assert is_idle(bayplan)
    assert says_no_traceback(bayplan)
    bayplan.stop(grace=SOON)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "does-not-exist", id="missing"),
        pytest.param("{", "", id="no YAML"),
        pytest.param("just a text", "", id="no kubeconfig"),
        pytest.param("{apiVersion: v1, kind: Config, current-context: x}", "", id="no context"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_ends_bayplan(
    cluster: Cluster, tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "does-not-exist"
    if content is not None:
        path = tmp_path / "broken"
        path.write_text(content)
    text = ends(cluster.bayplan(kubeconfig=path))
    assert said in text
    assert str(path) in text


def test_a_configuration_that_is_wrong_ends_bayplan_with_each_error_and_its_place(
    cluster: Cluster, tmp_path: Path
) -> None:
    document = yaml.safe_load(CONFIG.read_text())
    score = {"enabled": [{"name": "NodeAffinity"}, {"name": "NodeRsourcesFit"}]}
    document["profiles"][0]["plugins"] = {"score": score}
    document["podMaxBackoffSeconds"] = -1
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    lines = ends(cluster.bayplan(path)).splitlines()
    assert (
        f"{path}: profiles[0].plugins.score.enabled[1].name: "
        'unknown plugin "NodeRsourcesFit" (did you mean NodeResourcesFit?)'
    ) in lines
    assert any(line.startswith(f"{path}: podMaxBackoffSeconds: ") for line in lines)


def test_a_plugin_file_that_is_broken_ends_bayplan_with_its_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text("from bayplan.framework import Plugin\n\nPlugn()\n")
    text = ends(cluster.bayplan(CONFIG, tmp_path))
    assert text.startswith(f"{tmp_path / 'plugin.py'}:3: NameError: name 'Plugn' is not defined")


def test_a_port_that_is_taken_ends_bayplan(cluster: Cluster) -> None:
    bayplan = cluster.bayplan()
    port = int(bayplan.endpoint.url.rpartition(":")[2])
    with socket.create_server(("", port)):
        assert "in use" in ends(bayplan)
