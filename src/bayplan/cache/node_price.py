"""NodePrices: the hourly prices of nodes, a column for each rule by which prices are read.

A price is a number of at least 0, in one currency for all nodes. A node whose price is absent, no
number, negative or infinite is NaN; those where something stands that is no price are listed.

Where a source is asked (`bayplan.app.load`), each answer replaces all prices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from bayplan.api.node import Node
from bayplan.cache.node_table import IntArray, LiveNodeTable

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PriceRule:
    """Where the price of a node stands; equal rules share what they have read.

    Attributes:
        annotation: of nodes.
        label: of nodes, if there is no annotation to read.
        domains: a domain and its price each, if there is neither.
        keys: the labels that have a node's domains, coarse to fine; the finest with a price counts.
        source: says the prices, if there is one; nodes do not.
    """

    annotation: str = ""
    label: str = ""
    domains: tuple[tuple[str, float], ...] = ()
    keys: tuple[str, ...] = ()
    source: Hashable = None

    def price(self, node: Node) -> float | None:
        """The price; None where nothing says one, NaN where that is no price."""
        if self.annotation or self.label:
            values = node.metadata.annotations if self.annotation else node.labels
            text = values.get(self.annotation or self.label)
            return None if text is None else number(text)
        prices: Mapping[str, float] = dict(self.domains)
        named = (prices.get(node.labels.get(key, "")) for key in reversed(self.keys))
        return next((price for price in named if price is not None), None)


def number(text: str) -> float:
    """The amount in ``text``; NaN where there is no number of at least 0."""
    try:
        amount = float(text)
    except ValueError:
        return math.nan
    return amount if 0 <= amount < math.inf else math.nan


@dataclass
class NodePrice:
    """The prices by one rule.

    Attributes:
        values: ``(n,)`` per hour; NaN where the price is not known.
        invalid: the rows where something stands that is no price.
        version: another number after each change.
    """

    values: FloatArray
    invalid: set[int] = field(default_factory=set)
    version: int = 0

    def set(self, row: int, price: float | None) -> None:
        """See `PriceRule.price`."""
        value = math.nan if price is None else price
        wrong = price is not None and math.isnan(price)
        before = self.values.item(row)
        same = value == before or (math.isnan(value) and math.isnan(before))
        if same and wrong == (row in self.invalid):
            return
        self.values[row] = value
        (self.invalid.add if wrong else self.invalid.discard)(row)
        self.version += 1


class NodePrices:
    """See the module's docstring; a `bayplan.cache.node_table.column.NodeColumn`."""

    def __init__(self, n: int = 0, by_rule: dict[PriceRule, NodePrice] | None = None) -> None:
        self._n = n
        self._by_rule = {} if by_rule is None else by_rule

    def __getitem__(self, rule: PriceRule) -> NodePrice:
        """The prices by ``rule``, which has been followed."""
        return self._by_rule[rule]

    def follow(self, rule: PriceRule, nodes: LiveNodeTable) -> NodePrice:
        """The prices by ``rule`` from now on, of ``nodes``, the table of this column."""
        if rule not in self._by_rule:
            price = self._by_rule[rule] = NodePrice(np.full(self._n, np.nan))
            for info in nodes:
                price.set(info.row, rule.price(info.node))
        return self._by_rule[rule]

    def set_node(self, row: int, node: Node, _previous: Node | None) -> None:
        """See `bayplan.cache.node_table.column.NodeColumn`."""
        for rule, price in self._by_rule.items():
            if rule.source is None:
                price.set(row, rule.price(node))

    def write(
        self, rule: PriceRule, said: Mapping[str, float], nodes: LiveNodeTable
    ) -> Counter[str]:
        """The source of ``rule``, which has been followed, says these prices and no others.

        Args:
            rule: the rule.
            said: by the name of a node; NaN or less than 0 where there is no price.
            nodes: the table of this column.

        Returns:
            How many prices were ``used``, ``invalid`` or of an ``unknown node``.
        """
        price, counts = self._by_rule[rule], Counter[str]()
        for info in nodes:
            amount = said.get(info.name)
            valid = amount is not None and 0 <= amount < math.inf
            price.set(info.row, amount if valid or amount is None else math.nan)
            if amount is not None:
                counts["used" if valid else "invalid"] += 1
        counts["unknown node"] = len(said) - counts.total()
        return counts

    def grow(self, n: int) -> None:
        """See `Column.grow`."""
        for price in self._by_rule.values():
            price.values = np.concatenate([price.values, np.full(n - self._n, np.nan)])
        self._n = n

    def clear(self, row: int) -> None:
        """See `Column.clear`."""
        for price in self._by_rule.values():
            price.set(row, None)

    def take(self, rows: IntArray) -> Self:
        """See `Column.take`."""
        taken = {rule: NodePrice(p.values[rows]) for rule, p in self._by_rule.items()}
        return type(self)(len(rows), taken)
