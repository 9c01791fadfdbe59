from __future__ import annotations

from tests.queue.support import pod

from bayplan.queue.nominator import Nominator


def names(nominator: Nominator, node: str) -> list[str]:
    return [p.name for p in nominator.nominated_pods(node)]


def test_a_nomination_is_found_by_its_node() -> None:
    nominator = Nominator()
    nominator.nominate(pod("a").obj(), "n1")
    nominator.nominate(pod("b").nominated("n1").obj())
    nominator.nominate(pod("c").obj(), "n2")
    assert names(nominator, "n1") == ["a", "b"]
    assert names(nominator, "n3") == []
    assert set(nominator.nominated_nodes()) == {"n1", "n2"}
    assert nominator.nominated_node("c") == "n2"
    assert len(nominator) == 3


def test_a_pod_whose_status_names_no_node_is_not_nominated() -> None:
    nominator = Nominator()
    nominator.nominate(pod("a").obj())
    assert len(nominator) == 0
    assert nominator.nominated_node("a") == ""


def test_a_new_nomination_takes_the_place_of_the_old_one() -> None:
    nominator = Nominator()
    nominator.nominate(pod("a").nominated("n1").obj())
    nominator.nominate(pod("a").obj(), "n2")
    assert names(nominator, "n1") == []
    assert names(nominator, "n2") == ["a"]
    assert list(nominator.nominated_nodes()) == ["n2"]


def test_an_empty_node_name_ends_the_nomination_whatever_the_status_says() -> None:
    nominator = Nominator()
    nominator.nominate(pod("a").nominated("n1").obj())
    nominator.nominate(pod("a").nominated("n1").obj(), "")
    assert len(nominator) == 0


def test_after_a_rehearsal_nominations_are_as_before_also_where_there_were_none() -> None:
    nominator = Nominator()
    a, b = pod("a").obj(), pod("b").obj()
    with nominator.rehearsal([a]):
        nominator.nominate(a, "n1")
    assert len(nominator) == 0
    nominator.nominate(b, "n2")
    with nominator.rehearsal([a, b]):
        nominator.nominate(a, "n1")
        nominator.remove(b.uid)
    assert names(nominator, "n1") == []
    assert names(nominator, "n2") == ["b"]


def test_removing_one_pod_leaves_the_others_on_the_node() -> None:
    nominator = Nominator()
    nominator.nominate(pod("a").obj(), "n1")
    nominator.nominate(pod("b").obj(), "n1")
    nominator.remove("a")
    nominator.remove("unknown")
    assert names(nominator, "n1") == ["b"]


def test_an_update_that_does_not_know_of_the_nomination_yet_keeps_it() -> None:
    nominator = Nominator()
    old, new = pod("a").obj(), pod("a").label("x").obj()
    nominator.nominate(old, "n1")
    nominator.update(old, new)
    assert list(nominator.nominated_pods("n1")) == [new]


def test_an_update_of_the_nominated_node_name_is_followed() -> None:
    nominator = Nominator()
    bare, one, two = pod("a").obj(), pod("a").nominated("n1").obj(), pod("a").nominated("n2").obj()
    nominator.update(bare, one)
    assert nominator.nominated_node("a") == "n1"
    nominator.update(one, two)
    assert nominator.nominated_node("a") == "n2"
    nominator.update(two, bare)
    assert nominator.nominated_node("a") == ""


def test_the_update_of_a_pod_that_was_never_nominated_nominates_nothing() -> None:
    nominator = Nominator()
    nominator.update(pod("a").obj(), pod("a").label("x").obj())
    assert len(nominator) == 0


def test_the_version_is_as_before_when_a_nomination_is_undone() -> None:
    nominator = Nominator()
    a, b = pod("a").obj(), pod("b").obj()
    nominator.nominate(a, "n1")
    before = nominator.version
    with nominator.rehearsal([a, b]):
        nominator.nominate(a, "n2")
        nominator.nominate(b, "n1")
        assert nominator.version != before
    assert nominator.version == before


def test_two_pods_that_change_their_nodes_are_another_version() -> None:
    nominator, versions = Nominator(), set()
    a, b = pod("a").obj(), pod("b").obj()
    for first, second in (("n1", "n2"), ("n2", "n1"), ("n1", "n1")):
        nominator.nominate(a, first)
        nominator.nominate(b, second)
        versions.add(nominator.version)
    assert len(versions) == 3


def test_a_nominated_pod_that_has_changed_is_another_version() -> None:
    nominator = Nominator()
    old, new = pod("a").obj(), pod("a").obj()
    nominator.nominate(old, "n1")
    before = nominator.version
    nominator.update(old, new)
    assert nominator.version != before
