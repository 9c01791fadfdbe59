"""The aggregated API, behind a real API server: three users, and the rights of the process."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import chromium
from e2e.cluster import DEPLOY, NAME, SOON, SYSTEM, Bayplan, Cluster, pod
from e2e.provider import NodeSpec, token_kubeconfig, wait_until
from e2e.provider.process import Endpoint, Part, free_port, unverified
from e2e.provider.programs import program

pytestmark = pytest.mark.e2e

COMPONENT = DEPLOY / "components" / "api"
API = "bayplan-api"
READER, NOBODY = "api-reader", "api-nobody"
NODE, FOREIGN, BIG = "api-n1", "api-foreign", "api-big"
HOST = socket.gethostname().lower()
GROUP = "view.bayplan.dev"
PREFIX = f"/apis/{GROUP}/v1alpha1"
LEADER = "schedulers/leader"


@pytest.fixture(scope="module")
def api(shared: Cluster, deployed: Bayplan) -> Iterator[Part]:
    """The process with the rights of deploy/, known to the API server, and the leader's Pod."""
    if not shared.plane.owns_parts or socket.gethostname() != HOST:
        pytest.skip("takes an API server on this machine, and a host whose name a Pod can have")
    plane, port = shared.plane, free_port()
    for name in ("rbac.yaml", "users.yaml"):
        shared.kubectl("apply", "-f", str(COMPONENT / name))
    credentials = plane.folder / "api.kubeconfig"
    token_kubeconfig(credentials, plane.kubeconfig, shared.token(API))
    argv = [sys.executable, "-m", "bayplan", "api", f"--kubeconfig={credentials}"]
    argv += ["--bind-address=127.0.0.1", f"--secure-port={port}", *plane._pair_flags()]
    argv += [f"--lease={SYSTEM}/{NAME}", f"--certificate-authority={plane.authority.cert}"]
    endpoint = Endpoint(f"https://127.0.0.1:{port}", unverified())
    part = Part("api", argv, plane.folder / "api.log", endpoint, "/readyz")
    service = yaml.safe_load((COMPONENT / "api-service.yaml").read_text())
    spec = service["spec"]
    del spec["insecureSkipTLSVerify"]
    spec["caBundle"] = base64.b64encode(plane.authority.cert.read_bytes()).decode()
    spec["service"]["port"] = port
    with ExitStack() as stack:
        stack.callback(part.stop)
        part.start(SOON)
        stack.enter_context(_leader(shared, deployed))
        # As the name of the Service, the API server expects it in the certificate; it leads here.
        outside = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        named = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": API}, "spec": outside}
        shared.put(named, namespace=SYSTEM)
        shared.kubectl("apply", "-f", "-", stdin=json.dumps(service))
        stack.callback(shared.kubectl, "delete", "apiservice", service["metadata"]["name"])
        stack.callback(shared.kubectl, "delete", "service", API, namespace=SYSTEM)
        wait = ("wait", "--for=condition=Available", "apiservice/v1alpha1.view.bayplan.dev")
        shared.kubectl(*wait, f"--timeout={SOON:.0f}s")
        yield part


def _leader(shared: Cluster, deployed: Bayplan) -> Any:
    """A Pod that is called after the leader's host and has the leader's address."""
    stack = ExitStack()
    port = {"name": "https", "containerPort": int(deployed.endpoint.url.rpartition(":")[2])}
    container = {"name": "c", "image": "i", "ports": [port]}
    leader = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": HOST},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }
    shared.put(leader, namespace=SYSTEM)
    where = ("pod", HOST, f"--namespace={SYSTEM}")
    stack.callback(shared.kubectl, "delete", *where, "--force", "--grace-period=0")
    status = json.dumps({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}})
    shared.kubectl("patch", *where, "--subresource=status", "--type=merge", f"--patch={status}")
    return stack


@pytest.fixture(scope="module")
def users(
    shared: Cluster, api: Part, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """Kubeconfigs: of the admin, of one who has the role edit in the namespace, of a nobody."""
    assert api.running
    where = {"namespace": shared.namespace}
    mine = f"{PREFIX}/namespaces/{shared.namespace}/{LEADER}/status"
    with shared.users(tmp_path_factory.mktemp("users"), READER, NOBODY) as found:
        account = f"--serviceaccount={shared.namespace}:{READER}"
        shared.kubectl("create", "rolebinding", READER, "--clusterrole=edit", account, **where)
        wait_until(lambda: raw(found[READER], mine).returncode == 0, SOON, "the role")
        yield found
        shared.kubectl("delete", "rolebinding", READER, **where)


@pytest.fixture(scope="module")
def foreign(shared: Cluster) -> Iterator[str]:
    """Another namespace."""
    shared.kubectl("create", "namespace", FOREIGN)
    yield FOREIGN
    shared.kubectl("delete", "namespace", FOREIGN, "--wait=false")


@pytest.fixture
def pods(cluster: Cluster, foreign: str) -> Iterator[str]:
    """A Pod that waits, a running one of another namespace; the path of the namespace."""
    cluster.nodes(NodeSpec(NODE, cpu="4"))
    cluster.put(pod(FOREIGN, NAME, cpu="2"), namespace=foreign)
    cluster.create(pod(BIG, NAME, cpu="3"))
    cluster.wait_condition(BIG)
    yield f"{PREFIX}/namespaces/{cluster.namespace}"
    where = ("--force", "--grace-period=0")
    cluster.kubectl("delete", "pod", FOREIGN, *where, namespace=foreign)


def raw(
    user: Path, path: str, verb: str = "get", body: Any = None
) -> subprocess.CompletedProcess[str]:
    command = [str(program("kubectl")), f"--kubeconfig={user}", verb, f"--raw={path}"]
    text = None if body is None else json.dumps(body)
    command += [] if text is None else ["-f", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_three_users_ask_through_the_api_server(
    cluster: Cluster, pods: str, users: dict[str, Path]
) -> None:
    def asked(user: str, path: str, *post: Any) -> dict[str, Any]:
        run = raw(users[user], path, *post)
        assert run.returncode == 0, run.stderr
        if user != "admin":
            for name in (NODE, FOREIGN, HOST):
                assert name not in run.stdout
        answer: dict[str, Any] = json.loads(run.stdout)
        return answer

    explanation = f"{pods}/pods/{BIG}/explanation"
    plan = [pod("planned", NAME, cpu="1") | {"apiVersion": "v1", "kind": "Pod"}]
    plan[0]["metadata"]["namespace"] = cluster.namespace
    for user in ("admin", READER):
        answer = asked(user, explanation)
        assert (answer["kind"], answer["state"]) == ("PodAnswer", "Pending")
        assert "2 cpu free of the 3 that it needs" in answer["sentence"]
        status = asked(user, f"{pods}/{LEADER}/status")
        assert (status["kind"], status["leads"]) == ("StatusAnswer", True)
        assert f"{cluster.namespace}/{BIG}" in json.dumps(status)
        bays = asked(user, f"{pods}/{LEADER}/bays")
        assert f"{cluster.namespace}/{BIG}" in bays["pending"]["name"]
        assert asked(user, f"{pods}/{LEADER}/queues")["queues"] == []
        planned = asked(user, f"{pods}/{LEADER}/plan", "create", plan)
        assert planned["placed"] == 1
    assert NODE in raw(users["admin"], explanation).stdout
    assert asked("admin", f"{PREFIX}/{LEADER}/status")["leader"].startswith(HOST)

    foreign = f"{PREFIX}/namespaces/{FOREIGN}/pods/{FOREIGN}/explanation"
    refused = {
        READER: (foreign, f"{PREFIX}/{LEADER}/status", f"{PREFIX}/{LEADER}/bays"),
        NOBODY: (explanation, f"{pods}/{LEADER}/status", f"{PREFIX}/{LEADER}/bays"),
    }
    for user, paths in refused.items():
        for path in paths:
            run = raw(users[user], path)
            assert run.returncode != 0
            assert "Forbidden" in run.stderr
            assert "cpu" not in run.stdout + run.stderr


@contextmanager
def proxied(user: Path) -> Iterator[str]:
    """The API server as `kubectl proxy` shows it to a browser of this user."""
    command = [str(program("kubectl")), f"--kubeconfig={user}", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://{process.stdout.readline().strip().rpartition(' ')[2]}"
        finally:
            process.terminate()


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_three_users_see_on_the_page_what_they_may(
    cluster: Cluster, pods: str, users: dict[str, Path], tmp_path: Path
) -> None:
    mine, everything = f"{pods}/{LEADER}/page/", f"{PREFIX}/{LEADER}/page/"
    painted = "Number(document.body.dataset.generation ?? 0) > 0 && bayplan.picture.painted"
    big = f"{cluster.namespace}/{BIG}"
    why = f"document.querySelector('[data-pod=\"{big}\"]').click()"
    whole = "document.documentElement.outerHTML + JSON.stringify(bayplan.state.bays)"
    with chromium.opened(tmp_path) as tab:
        for user, path in (("admin", everything), (READER, mine)):
            with proxied(users[user]) as url:
                tab.open(f"{url}{path}")
                tab.wait(painted)
                tab.run(why)
                tab.wait(
                    "document.querySelector('#answer h2')?.innerText.includes(' that it needs')"
                )
                seen = tab.run(whole)
                assert big in seen
                assert (NODE in seen, FOREIGN in seen) == ((user == "admin"),) * 2
                tab.open("about:blank#")
        with proxied(users[READER]) as url:
            run = raw(users[READER], everything)
            assert "Forbidden" in run.stderr or "forbidden" in run.stderr
            tab.open(f"{url}{everything}")
            assert NODE not in tab.run("document.documentElement.outerHTML")
        with proxied(users[NOBODY]) as url:
            for path in (mine, everything):
                tab.open(f"{url}{path}")
                assert "forbidden" in tab.run("document.body.innerText")
                assert not any(n in tab.run("document.body.innerText") for n in (NODE, BIG))
                assert raw(users[NOBODY], path).returncode != 0


def test_the_commands_ask_through_it_by_themselves(
    cluster: Cluster, pods: str, users: dict[str, Path]
) -> None:
    """Who may neither read the Lease nor forward a port asks all the same."""
    del pods

    def bayplan(*arguments: str, user: str = READER) -> str:
        command = [sys.executable, "-m", "bayplan", *arguments, f"--kubeconfig={users[user]}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert user != READER or not any(name in run.stdout for name in (NODE, FOREIGN, HOST))
        return run.stdout

    where = ("-n", cluster.namespace)
    assert "2 cpu free of the 3 that it needs" in bayplan("why", BIG, *where)
    assert f"{cluster.namespace}/{BIG}" in bayplan("why", *where)
    assert "the scheduler leads" in bayplan("status", *where)
    assert NODE in bayplan("explain", "pod", BIG, *where, "-o", "json", user="admin")
    job = cluster.plane.folder / "plan.json"
    job.write_text(json.dumps(pod("planned", NAME, cpu="1") | {"apiVersion": "v1", "kind": "Pod"}))
    assert "All 1 Pods can be placed now" in bayplan("plan", "-f", str(job), *where)


def test_a_right_to_the_resource_alone_leads_to_nothing(
    cluster: Cluster, pods: str, users: dict[str, Path]
) -> None:
    """The scheduler asks about the user, and not about the process that asks for the user."""
    where = {"namespace": cluster.namespace}
    rule = {"apiGroups": [GROUP], "resources": ["pods/explanation"], "verbs": ["get"]}
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    cluster.put(meta | {"metadata": {"name": NOBODY}, "rules": [rule]})
    account = f"--serviceaccount={cluster.namespace}:{NOBODY}"
    cluster.kubectl("create", "rolebinding", NOBODY, f"--role={NOBODY}", account, **where)

    def refused() -> bool:
        run = raw(users[NOBODY], f"{pods}/pods/{BIG}/explanation")
        assert run.returncode != 0
        return f"may not get pods/{BIG} in the namespace {cluster.namespace}" in run.stderr

    try:
        wait_until(refused, SOON, "the refusal of the scheduler")
    finally:
        cluster.kubectl("delete", "role,rolebinding", NOBODY, **where)


def test_what_is_not_there_is_said(cluster: Cluster, pods: str, users: dict[str, Path]) -> None:
    def said(path: str, *post: Any) -> str:
        run = raw(users["admin"], path, *post)
        assert run.returncode != 0, run.stdout
        return run.stderr

    never = f"{pods}/pods/api-never/explanation"
    assert f"there is no Pod {cluster.namespace}/api-never" in said(never)
    group = f"{pods}/jobs/train/explanation"
    assert f"there is no Pod of a group {cluster.namespace}/Job/train" in said(group)
    assert "the server could not find the requested resource" in said(f"{pods}/pods/{BIG}/other")
    assert "a plan is about 1 to 500 Pods" in said(f"{pods}/{LEADER}/plan", "create", [])


def test_nobody_but_the_api_server_is_believed(
    shared: Cluster, api: Part, users: dict[str, Path]
) -> None:
    """An administrator's certificate of the cluster is none of the proxy's authority."""
    del users
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    options = [option for name, value in headers.items() for option in ("-H", f"{name}: {value}")]
    url = f"{api.endpoint.url}{PREFIX}/{LEADER}/status"
    command = ["curl", "-s", "-w", "%{http_code}", "--cacert", str(shared.plane.authority.cert)]
    run = subprocess.run([*command, *options, url], capture_output=True, text=True, check=False)
    assert run.stdout == "Unauthorized\n401"
    run = subprocess.run(
        [*command, *shared.plane.curl_options(), *options, url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout in ("000", "Unauthorized\n401")


def test_kubectl_knows_the_resources_and_lists_none(
    cluster: Cluster, users: dict[str, Path]
) -> None:
    del users
    assert GROUP not in cluster.kubectl("api-resources")
    assert f"{GROUP}/v1alpha1" in cluster.kubectl("api-versions")
    found = json.loads(cluster.kubectl("get", f"--raw={PREFIX}"))
    listed = {(one["name"], *one["verbs"]) for one in found["resources"]}
    rules = [
        rule
        for document in yaml.safe_load_all((COMPONENT / "users.yaml").read_text())
        for rule in document["rules"]
    ]
    granted = {
        (name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]
    }
    assert listed == granted
