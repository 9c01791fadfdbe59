"""What commands share that ask the running scheduler: how Pods and groups are called."""

from __future__ import annotations

import pytest

from bayplan.cli.asking import Subject, subject


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web", Subject("shop", "web", is_group=False)),
        ("pod/web", Subject("shop", "web", is_group=False)),
        ("po/web", Subject("shop", "web", is_group=False)),
        ("bank/web", Subject("bank", "web", is_group=False)),
        ("pod/bank/web", Subject("bank", "web", is_group=False)),
        ("podgroup/train", Subject("shop", "train", is_group=True)),
        ("PodGroup/bank/train", Subject("bank", "train", is_group=True)),
        ("job/train", Subject("shop", "Job/train", is_group=True)),
        ("Job/bank/train", Subject("bank", "Job/train", is_group=True)),
        ("group/Job/train", Subject("shop", "Job/train", is_group=True)),
        ("group/bank/Job/train", Subject("bank", "Job/train", is_group=True)),
        ("lws/serve-0", Subject("shop", "LeaderWorkerSet/serve-0", is_group=True)),
    ],
)
def test_pods_and_groups_are_called_as_by_kubectl(text: str, expected: Subject) -> None:
    assert subject(text, "shop") == expected
