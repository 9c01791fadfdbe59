"""Quotas: the ElasticQuotas as rows, and the kept sums of what namespaces use.

A namespace with a quota is a leaf of a flat tree, whose root is all of them together (`TOTAL`). Its
minimum is guaranteed, its maximum is a limit, and the limit of the root is the sum of all minimums.
One quota counts in a namespace: the oldest, of equally old ones the first by name.

cpu, memory and ephemeral-storage are compared always, and what no list names is 0 of them. Of
other resources the sum is compared wherever there is a column; the maximum of a namespace where a
Pod names the resource, and a maximum that does not name it is no limit. "pods" and names that the
scheduler does not count are left out.

Source of the rules: ``pkg/capacityscheduling`` of scheduler-plugins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from bayplan.api.kinds import ELASTIC_QUOTA
from bayplan.api.meta import ObjectFault
from bayplan.api.pod import Pod, SpecPart
from bayplan.api.quantity import QuantityError
from bayplan.api.scheduling import ElasticQuota
from bayplan.cache.amounts import NO_ROW, UNLIMITED, Amounts, Limit
from bayplan.cache.kept_sums import KeptSums
from bayplan.plugins.shared.effective_resources import counted, effective
from bayplan.plugins.shared.resource_names import CORE

TOTAL = 0
"""The row of all namespaces with a quota together."""
_EPOCH = datetime.fromtimestamp(0, UTC)

_Bounds = tuple[Mapping[str, int], Mapping[str, int]]
"""A minimum and a maximum, by resource."""


class QuotaRows:
    """The quotas by row; see the module's docstring, and `bayplan.cache.amounts.TenantRows`.

    Attributes:
        resources: (r,) the columns; first those that are compared always.
        row_of: the row of each namespace that has a quota.
        links: of each row, itself and `TOTAL`.
        minimum: (q, r) what is guaranteed; of `TOTAL` the sum.
        maximum: (q, r) the limits, `UNLIMITED` for none; of `TOTAL` the sum of all minimums.
        faults: what is wrong with the objects.
    """

    def __init__(self, quotas: Iterable[ElasticQuota], extra: Iterable[str] = ()) -> None:
        self.faults: list[ObjectFault] = []
        bounds = dict(self._bounds(quotas))
        names = {name for both in bounds.values() for amounts in both for name in amounts}
        self.resources = tuple(dict.fromkeys((*CORE, *sorted(names), *extra)))
        self.row_of = {namespace: row for row, namespace in enumerate(bounds, TOTAL + 1)}
        self.links = ((TOTAL,), *((row, TOTAL) for row in self.row_of.values()))
        minimum = [self._row(least, 0) for least, _ in bounds.values()]
        maximum = [self._row(most, UNLIMITED) for _, most in bounds.values()]
        total = [sum(row[column] for row in minimum) for column in range(len(self.resources))]
        self.minimum, self.maximum = [total, *minimum], [total, *maximum]

    def _row(self, amounts: Mapping[str, int], unnamed: int) -> Amounts:
        return [amounts.get(name, unnamed) for name in self.resources]

    def _bounds(self, quotas: Iterable[ElasticQuota]) -> Iterator[tuple[str, _Bounds]]:
        """The valid bounds of each namespace."""
        by_namespace: defaultdict[str, list[ElasticQuota]] = defaultdict(list)
        for quota in sorted(quotas, key=_age):
            by_namespace[quota.namespace].append(quota)
        for namespace, (oldest, *younger) in by_namespace.items():
            for quota in younger:
                text = f"only the oldest ElasticQuota of a namespace counts: {oldest.name}"
                self._fault(quota, "Ignored", text)
            spec = oldest.spec
            try:
                minimum = counted(spec.min or {})
                maximum = dict.fromkeys(CORE, UNLIMITED if spec.max is None else 0)
                maximum |= counted(spec.max or {})
            except QuantityError as error:
                text = f"the ElasticQuota is ignored: {error}"
                self._fault(oldest, "InvalidAmount", text)
                continue
            over = [name for name in minimum if minimum[name] > maximum.get(name, UNLIMITED)]
            if over:
                text = f"spec.min is more than spec.max: {', '.join(sorted(over))}"
                self._fault(oldest, "MinAboveMax", text)
            yield namespace, (minimum, maximum)

    def _fault(self, quota: ElasticQuota, reason: str, message: str) -> None:
        self.faults.append(ObjectFault(ELASTIC_QUOTA.reference(quota), reason, message))

    # Limits

    def compared(self, named: Collection[str]) -> list[int]:
        """The columns compared with the quota of a namespace, for a Pod that names ``named``.

        A resource of which the Pod names the amount 0 is one of them.
        """
        names = enumerate(self.resources)
        return [column for column, name in names if column < len(CORE) or name in named]

    def limits_on(self, leaf: int, _requests: Amounts, named: Collection[str]) -> list[Limit]:
        """See `bayplan.cache.amounts.TenantRows`."""
        own = [Limit(leaf, column, self.maximum[leaf][column]) for column in self.compared(named)]
        total = [Limit(TOTAL, *limit) for limit in enumerate(self.maximum[TOTAL])]
        return [limit for limit in (*own, *total) if limit.most < UNLIMITED]

    def is_above_minimum(self, row: int, used: Amounts) -> bool:
        """Whether a usage of ``used``, (r,), would be above the minimum in any resource."""
        return any(amount > least for amount, least in zip(used, self.minimum[row], strict=True))


class Quotas(KeptSums[QuotaRows]):
    """What the namespaces with a quota use. Pods of others are not counted.

    What preempted Pods use is leaving; what ends for another reason is not.
    """

    kind = ELASTIC_QUOTA

    def _new_structure(self, extra: Iterable[str]) -> QuotaRows:
        return QuotaRows(self._objects.all(ELASTIC_QUOTA), extra)

    def _leaf(self, pod: Pod) -> int:
        return self._sums.structure.row_of.get(pod.shape.namespace, NO_ROW)

    def amounts(self, pod: Pod) -> Mapping[str, int]:
        """What ``pod`` takes of its quota; see `bayplan.plugins.shared.effective_resources`."""
        return pod.shape.requests.memo(_effective)

    def _is_leaving(self, pod: Pod) -> bool:
        return pod.is_preempted


def _effective(part: SpecPart) -> Mapping[str, int]:
    return effective(part.spec, lambda container: container.resources.requests)


def _age(quota: ElasticQuota) -> tuple[datetime, str]:
    return quota.metadata.creation_timestamp or _EPOCH, quota.name
