"""Fixtures of the end-to-end tests: one control plane for most of them, one each for faults.

Each worker of pytest-xdist has a control plane of its own (``-n auto --dist loadfile``).
"""

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from e2e.audit import Audit
from e2e.cluster import NAME, NOBODY, READER, Bayplan, Cluster
from e2e.devices import Devices
from e2e.provider import ControlPlane, provide
from e2e.provider.choose import chosen
from e2e.provider.programs import OTHER_KUBE_SCHEDULER, is_reference
from e2e.proxy import Proxy

FIRST = (
    *("test_faults_under_load.py", "test_tenants.py", "test_faults.py", "test_groups.py"),
    *("test_running.py", "test_groups_faults.py", "test_devices.py", "test_extenders.py"),
    *("test_tenants_faults.py", "test_affinity_spread.py", "test_conformance.py"),
)
"""The files that take longest, so that at the end no worker waits long for the other."""
LAST = "test_permissions.py"
AUDIT = pytest.StashKey[Audit]()


def provider() -> type[ControlPlane]:
    """Return where control planes come from; one that does not exist ends pytest."""
    try:
        return chosen()
    except LookupError as error:
        raise pytest.UsageError(error.args[0]) from None


def pytest_xdist_auto_num_workers() -> int:
    """Return how many control planes there may be at a time; 0: the one, without a worker."""
    return 2 if provider().owns_parts and not provider().image else 0


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a provider that does not exist before anything is set up; make place for the audit."""
    provider()
    if hasattr(config, "workerinput"):
        config.stash[AUDIT] = Audit(Path(config.workerinput["audit"]))
    else:
        folder = tempfile.TemporaryDirectory(prefix="bayplan-audit-")
        config.add_cleanup(folder.cleanup)
        config.stash[AUDIT] = Audit(Path(folder.name))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all workers of pytest-xdist one place for the audit."""
    node.workerinput["audit"] = str(node.config.stash[AUDIT].folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note that a test is over, for the one that is to be the last."""
    result = yield
    item.config.stash[AUDIT].note(item.nodeid)
    return result


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Judge the permissions last, and only if everything that may use one has run."""
    last = [item for item in items if item.path.name == LAST]
    here = {item.path for item in items if item.path.parent == Path(__file__).parent}
    if here != set(Path(__file__).parent.glob("test_*.py")):
        why = pytest.mark.skip(reason="judged only after all other end-to-end tests")
        for item in last:
            item.add_marker(why)
    rank = {name: number for number, name in enumerate((*FIRST, "", LAST))}
    items.sort(key=lambda item: rank.get(item.path.name, rank[""]))


@pytest.fixture(scope="session")
def audit(pytestconfig: pytest.Config) -> Audit:
    """What bayplan's ServiceAccount asks of any control plane of this session."""
    return pytestconfig.stash[AUDIT]


@pytest.fixture(scope="session")
def new_cluster(audit: Audit) -> Callable[..., Cluster]:
    """Make a cluster of one's own: ``new_cluster(stack, *api_server_flags)``."""

    def make(stack: ExitStack, *flags: str) -> Cluster:
        noted = audit.flags() if chosen().owns_parts else []
        plane: ControlPlane = stack.enter_context(provide(*noted, *flags))
        cluster = Cluster(plane)
        stack.callback(cluster.tear_down)
        return cluster.set_up()

    return make


@pytest.fixture(scope="session")
def shared(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """The cluster that most tests share; see `cluster`."""
    with ExitStack() as stack:
        yield new_cluster(stack)


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster, with no nodes but those the test makes, and no Pods."""
    yield shared
    shared.clear()


@pytest.fixture(scope="session")
def deployed(shared: Cluster) -> Iterator[Bayplan]:
    """The scheduler as deploy/ configures it; one process for the whole session."""
    bayplan = shared.bayplan()
    bayplan.start()
    yield bayplan
    bayplan.stop(grace=60)


@pytest.fixture(scope="module")
def users(shared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Kubeconfigs: of the admin, of one who may read Pods of the namespace, of one who may not."""
    where = {"namespace": shared.namespace}
    with shared.users(tmp_path_factory.mktemp("users"), READER, NOBODY) as found:
        shared.kubectl("create", "role", READER, "--verb=get,list", "--resource=pods", **where)
        account = f"--serviceaccount={shared.namespace}:{READER}"
        shared.kubectl("create", "rolebinding", READER, f"--role={READER}", account, **where)
        yield found
        shared.kubectl("delete", "role,rolebinding", READER, **where)


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """Device objects for one test, with the class ``gpu``."""
    made = Devices(cluster)
    made.device_class()
    yield made
    cluster.clear()
    made.clear()


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Callable[..., Bayplan]]:
    """Start a scheduler for one test: ``start(config, *plugin_dirs)``."""
    with ExitStack() as stack:

        def starting(config: Path | None = None, *plugin_dirs: Path, **more: Any) -> Bayplan:
            bayplan = cluster.bayplan(config, *plugin_dirs, **more)
            stack.callback(bayplan.kill)
            bayplan.start()
            return bayplan

        yield starting


@pytest.fixture
def priorities(cluster: Cluster) -> Iterator[None]:
    """PriorityClasses e2e-low (-10), e2e-high (1000) and e2e-polite (as high, preempts nobody)."""
    make = ("create", "priorityclass")
    cluster.kubectl(*make, "e2e-low", "--value=-10")
    cluster.kubectl(*make, "e2e-high", "--value=1000")
    cluster.kubectl(*make, "e2e-polite", "--value=1000", "--preemption-policy=Never")
    yield
    cluster.kubectl("delete", "priorityclass", "e2e-low", "e2e-high", "e2e-polite")


@pytest.fixture(scope="module")
def kube_scheduler(shared: Cluster) -> Iterator[str]:
    """kube-scheduler beside bayplan on the shared cluster; its schedulerName."""
    part = shared.plane.start_kube_scheduler()
    yield "default-scheduler"
    if part is not None:
        part.stop()


@pytest.fixture(params=["deployed", "kube_scheduler"], ids=["bayplan", "kube-scheduler"])
def scheduler(request: pytest.FixtureRequest) -> str:
    """The schedulerName of each in turn: what a test says of bayplan is true of kube-scheduler."""
    if request.param == "kube_scheduler" and not is_reference():
        pytest.skip(OTHER_KUBE_SCHEDULER)
    found = request.getfixturevalue(request.param)
    return found if isinstance(found, str) else NAME


@pytest.fixture(scope="session")
def classes(shared: Cluster) -> Iterator[None]:
    """PriorityClasses above that of other Pods (0): vip, mid, and meek, which evicts nobody."""
    for name, value, policy in (
        ("vip", 1000, "PreemptLowerPriority"),
        ("mid", 100, "PreemptLowerPriority"),
        ("meek", 1000, "Never"),
    ):
        options = (f"--value={value}", f"--preemption-policy={policy}")
        shared.kubectl("create", "priorityclass", f"e2e-{name}", *options)
    yield
    shared.kubectl("delete", "priorityclass", "e2e-vip", "e2e-mid", "e2e-meek")


@pytest.fixture(scope="session")
def breakable(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """The cluster of `own`: its API server stores JSON, and nodes stay Ready while kwok sleeps."""
    if not chosen().owns_parts:
        pytest.skip("the API server of somebody else is not to be killed")
    with ExitStack() as stack:
        cluster = new_cluster(stack, "--storage-media-type=application/json")
        cluster.plane.start_controller_manager("*", "--node-monitor-grace-period=30m")
        yield cluster


@pytest.fixture
def own(breakable: Cluster) -> Iterator[Cluster]:
    """A cluster that the test may break; it is mended afterwards."""
    yield breakable
    breakable.mend()


@pytest.fixture
def proxy(own: Cluster) -> Iterator[Proxy]:
    """The way to the API server of `own`, which a test may cut."""
    with closing(Proxy(own.kubeconfig)) as made:
        yield made
