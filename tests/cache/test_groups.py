"""Groups: which Pods belong together without a PodGroup, and how many are needed at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.owners import (
    jobs_of,
    make_job,
    make_job_set,
    make_leader_worker_set,
    pods_of_group,
    pods_of_job,
    replicated,
)

from bayplan.api.batch import Job
from bayplan.api.kinds import JOB, JOB_SET, LEADER_WORKER_SET
from bayplan.api.pod import Pod
from bayplan.cache.cache import Cache
from bayplan.cache.groups import Groups
from bayplan.cache.inferred_groups import OWNERS, owner_of, says_something_about
from bayplan.cache.objects import ObjectStore
from bayplan.cache.pod_groups import POD_GROUP_LABEL
from bayplan.config.args import GROUP_OWNERS
from bayplan.testing import make_pod
from bayplan.testing.builder import Builder

ALL = ("JobSet", "LeaderWorkerSet", "Job")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def groups_over(*builders: Builder[Any], owners: tuple[str, ...] = ALL) -> Groups:
    """Groups inferred from these owners, of these objects."""
    objects = ObjectStore()
    groups = Groups(objects, {})
    groups.infer(owners)
    for builder in builders:
        objects.set(builder.kind, builder.obj())
    return groups


def minimum(groups: Groups, pod: Pod) -> int | None:
    """That of the Pod's group; None where nothing says what it asks for."""
    group = groups.find(groups.key_of(pod))
    return None if group is None else group.minimum


def test_the_configuration_knows_the_kinds_that_groups_can_be_inferred_from() -> None:
    assert tuple(OWNERS) == GROUP_OWNERS


JOB_OF_SET = jobs_of(make_job_set("train", replicated("workers", 2, 2)), "workers")[1]
POD_OF_SET = pods_of_job(JOB_OF_SET, range(1))[0].obj()
POD_OF_GROUP = pods_of_group(make_leader_worker_set("serve", 3), 7, range(1, 2))[0].obj()
POD_OF_JOB = pods_of_job(make_job("sweep", 2), range(1))[0].obj()


@pytest.mark.parametrize(
    ("pod", "owners", "key"),
    [
        pytest.param(POD_OF_SET, ALL, "default/JobSet/train", id="job-set"),
        pytest.param(POD_OF_SET, ("Job",), "default/Job/train-workers-1", id="job-of-a-set"),
        pytest.param(POD_OF_SET, ("LeaderWorkerSet",), "", id="others"),
        pytest.param(POD_OF_SET, (), "", id="off"),
        pytest.param(POD_OF_GROUP, ALL, "default/LeaderWorkerSet/serve-7", id="worker"),
        pytest.param(POD_OF_JOB, ALL, "default/Job/sweep", id="job"),
        pytest.param(make_pod("p").owner("Job", "j", "batch/v1").obj(), ALL, "", id="not-indexed"),
        pytest.param(
            pods_of_job(make_job("j"), range(1))[0].label(POD_GROUP_LABEL, "g").obj(),
            ALL,
            "default/g",
            id="label-first",
        ),
    ],
)
def test_a_pod_belongs_to_the_group_of_its_owner(
    pod: Pod, owners: tuple[str, ...], key: str
) -> None:
    groups = groups_over(owners=owners)
    assert groups.key_of(pod) == key
    assert groups.any is bool(owners)


@pytest.mark.parametrize(
    ("job", "number"),
    [
        pytest.param(make_job("j"), 1, id="default"),
        pytest.param(make_job("j", 4, completions=4), 4, id="all"),
        pytest.param(make_job("j", 4, completions=10), 4, id="first-wave"),
        pytest.param(make_job("j", 4, completions=10).status(succeeded=8), 2, id="last-wave"),
        pytest.param(
            make_job("j", 4, completions=10).status(succeeded=4, failedIndexes="1,3-5"),
            2,
            id="failed-indexes",
        ),
        pytest.param(make_job("j", 4, completions=4, suspend=True), 0, id="suspended"),
        pytest.param(
            make_job("j", 4).status(conditions=[{"type": "Complete", "status": "True"}]),
            0,
            id="complete",
        ),
        pytest.param(
            make_job("j", 4, completions=4).annotation(EXCLUSIVE, "rack"), 1, id="exclusive"
        ),
        pytest.param(
            make_job("j", 4, completions=4)
            .annotation(EXCLUSIVE, "rack")
            .annotation("alpha.jobset.sigs.k8s.io/node-selector", "true"),
            4,
            id="exclusive-by-node-selector",
        ),
    ],
)
def test_a_job_needs_the_pods_that_it_has_at_once(job: Builder[Job], number: int) -> None:
    assert job.obj().pods_at_once == number
    assert minimum(groups_over(job), pods_of_job(job, range(1))[0].obj()) == max(number, 1)


def test_without_its_owner_nothing_says_what_a_group_asks_for() -> None:
    for pod in (POD_OF_JOB, POD_OF_GROUP, POD_OF_SET):
        assert minimum(groups_over(), pod) is None
    job = make_job("sweep", 2)
    groups = groups_over(job)
    groups.infer(("JobSet",))
    assert groups.find("default/Job/sweep") is None


WORKERS, DRIVER = replicated("workers", 3, 2), replicated("driver", 1, 1)


@pytest.mark.parametrize(
    ("replicated_jobs", "spec", "number"),
    [
        pytest.param([DRIVER, WORKERS], {}, 7, id="all"),
        pytest.param(
            [DRIVER, WORKERS], {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, 1, id="order"
        ),
        pytest.param(
            [DRIVER, WORKERS | {"dependsOn": [{"name": "driver", "status": "Ready"}]}],
            {},
            1,
            id="dependency",
        ),
    ],
)
def test_a_job_set_needs_what_its_controller_creates_at_once(
    replicated_jobs: list[Any], spec: dict[str, Any], number: int
) -> None:
    whole = make_job_set("train", *replicated_jobs, **spec)
    objects = ObjectStore()
    groups = Groups(objects, {})
    groups.infer(ALL)
    objects.set(JOB_SET, whole.obj())

    def needed() -> int:
        group = groups.find("default/JobSet/train")
        assert group is not None
        return group.minimum

    assert needed() == number
    # Whether its Jobs are there yet makes no difference.
    (driver,) = jobs_of(whole, "driver")
    objects.set(JOB, driver.obj())
    assert needed() == number
    for worker in jobs_of(whole, "workers"):
        objects.set(JOB, worker.obj())
    assert needed() == 7
    # One that has ended needs none, and one that is gone is made anew.
    objects.set(JOB, driver.status(conditions=[{"type": "Complete", "status": "True"}]).obj())
    assert needed() == 6
    for worker in jobs_of(whole, "workers"):
        objects.remove(JOB, worker.key)
    assert needed() == (6 if number == 7 else 1)


def test_the_jobs_of_an_exclusive_job_set_need_their_first_pods() -> None:
    whole = make_job_set("train", DRIVER, WORKERS).annotation(EXCLUSIVE, "rack")
    assert minimum(groups_over(whole), POD_OF_SET) == 4


@pytest.mark.parametrize(
    ("spec", "annotation", "number"),
    [
        pytest.param({}, "", 3, id="at-once"),
        pytest.param({"startupPolicy": "LeaderCreated"}, "", 3, id="leader-created"),
        pytest.param({"startupPolicy": "LeaderReady"}, "", 1, id="leader-ready"),
        pytest.param({}, "leaderworkerset.sigs.k8s.io/exclusive-topology", 1, id="exclusive"),
    ],
)
def test_a_leader_needs_its_workers_unless_they_wait_for_it(
    spec: dict[str, Any], annotation: str, number: int
) -> None:
    leaders = make_leader_worker_set("serve", 3, **spec)
    if annotation:
        leaders.annotation(annotation, "rack")
    assert minimum(groups_over(leaders), POD_OF_GROUP) == number


def test_an_owner_asks_for_a_topology_as_a_pod_group_does() -> None:
    job = make_job("sweep", 2).annotation("bayplan.dev/required-topology", "rack")
    group = groups_over(job).find("default/Job/sweep")
    assert group is not None
    assert group.topology is not None
    assert group.topology.required == "rack"
    assert group.subject is not None
    assert group.subject[:3] == ("Job", "default", "sweep")


def test_a_group_and_its_owners_know_each_other() -> None:
    assert owner_of("default/JobSet/train") == ("JobSet", "default/train")
    assert owner_of("default/LeaderWorkerSet/a-b-7") == ("LeaderWorkerSet", "default/a-b")
    assert owner_of("default/g") is None
    owners = {
        "job-of-set": JOB_OF_SET,
        "job": make_job("sweep"),
        "set": make_job_set("train"),
        "leaders": make_leader_worker_set("serve", 2),
    }
    keys = (
        "default/Job/train-workers-1",
        "default/JobSet/train",
        "default/Job/sweep",
        "default/LeaderWorkerSet/serve-7",
        "default/LeaderWorkerSet/serve-too-7",
        "default/g",
    )
    about = {
        name: [key for key in keys if says_something_about(key, owner.obj())]
        for name, owner in owners.items()
    }
    assert about == {
        "job-of-set": list(keys[:2]),
        "job": [keys[2]],
        "set": [keys[1]],
        "leaders": [keys[3]],
    }
    assert {kind for kinds in OWNERS.values() for kind in kinds} == {
        JOB,
        JOB_SET,
        LEADER_WORKER_SET,
    }


def test_the_nodes_of_a_group_are_known_whenever_it_is_told_to_infer() -> None:
    cache = Cache()
    first, second, third = pods_of_job(make_job("sweep", 3), range(3))
    cache.add(first.node("a").obj())
    groups = cache.groups
    assert groups.nodes_of("default/Job/sweep") == {}
    groups.follow(cache)
    cache.add(second.node("a").obj())
    assert groups.infer(("Job",))
    assert not groups.infer(("Job",))
    assert groups.nodes_of("default/Job/sweep") == {"a": 2}
    with cache.trial():
        cache.assume(third.obj(), "b")
        assert groups.nodes_of("default/Job/sweep") == {"a": 2, "b": 1}
    cache.remove(first.obj().uid)
    assert groups.nodes_of("default/Job/sweep") == {"a": 1}
    assert groups.infer(())
    assert groups.nodes_of("default/Job/sweep") == {}
