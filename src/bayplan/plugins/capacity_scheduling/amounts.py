"""Amounts of resources, as ElasticQuota compares them.

cpu, memory and ephemeral-storage are compared always, every other resource where the compared
amounts have it. "pods" and names that the scheduler does not count are left out. Amounts are in
milli-CPU, bytes or counts.

Source of the rules: ``pkg/capacityscheduling`` of scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.api.pod import Pod, SpecPart
from bayplan.plugins.shared.effective_resources import effective
from bayplan.plugins.shared.resource_names import CORE

Amounts = Mapping[str, int]

UNLIMITED = 2**63 - 1


def request(pod: Pod) -> Amounts:
    """What ``pod`` takes of its quota; see `bayplan.plugins.shared.effective_resources`."""
    return pod.shape.requests.memo(_request)


def _request(part: SpecPart) -> Amounts:
    return effective(part.spec, lambda container: container.resources.requests)


def add(total: dict[str, int], more: Amounts, sign: int = 1) -> None:
    """Add ``more`` to ``total``, or with ``sign`` -1 subtract it."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def without(used: Amounts, leaving: Amounts) -> Amounts:
    """What of ``used`` stays."""
    if not leaving:
        return used
    return {name: amount - leaving.get(name, 0) for name, amount in used.items()}


def room(limit: Amounts, used: Amounts, more: Amounts, unnamed: int) -> dict[str, int]:
    """What ``limit`` leaves when ``more`` comes to ``used``, for all that is compared.

    Negative where the limit is exceeded. ``unnamed`` is the limit of every resource of ``more``
    that ``limit`` does not name; of cpu, memory and ephemeral-storage that is 0.
    """
    left = {name: limit.get(name, 0) - used.get(name, 0) - more.get(name, 0) for name in CORE}
    for name, amount in more.items():
        if name not in left:
            left[name] = limit.get(name, unnamed) - used.get(name, 0) - amount
    return left


def exceeds(limit: Amounts, used: Amounts, more: Amounts, unnamed: int) -> bool:
    """Whether `room` leaves less than nothing of any resource."""
    return is_above(used, room(limit, {}, more, unnamed).items())


def is_above(used: Amounts, most: Iterable[tuple[str, int]]) -> bool:
    """Whether more is used of any resource than ``most`` says."""
    for name, amount in most:  # noqa: SIM110 - a generator costs twice as much
        if used.get(name, 0) > amount:
            return True
    return False
