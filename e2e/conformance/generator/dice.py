"""The randomness of a generated cluster: one seed, and a density of its own for every feature.

With one probability for all clusters a feature would never be common and hardly ever be absent; so
each cluster draws for each feature how common it is, from absent to every second object. The draw
depends on the seed and the feature's name alone: a new feature leaves the other densities alone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

DENSITIES = (0.03, 0.1, 0.25, 0.5)
"""How common a feature is among the objects that may have it, in clusters where it occurs."""

ABSENT = 0.35
"""The share of clusters in which a feature does not occur."""


class Dice(random.Random):
    """A random source that also knows how common each feature is in this cluster."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"cluster {seed}")
        self.cluster_seed = seed
        self._calm = random.Random(f"calm {seed}").choice((0.35, 0.7, 1.0))
        self._densities: dict[str, float] = {}

    def density(self, feature: str) -> float:
        """The probability with which an object of this cluster has the feature."""
        if feature not in self._densities:
            own = random.Random(f"{feature} {self.cluster_seed}")
            density = 0.0 if own.random() < ABSENT else own.choice(DENSITIES) * self._calm
            self._densities[feature] = density
        return self._densities[feature]

    def has(self, feature: str) -> bool:
        """Whether the object at hand has the feature."""
        return self.random() < self.density(feature)

    def chance(self, probability: float) -> bool:
        """True with the given probability, alike in all clusters."""
        return self.random() < probability

    def some(self, items: Sequence[T], least: int = 1, most: int | None = None) -> list[T]:
        """Between ``least`` and ``most`` different items, in random order."""
        most = len(items) if most is None else min(most, len(items))
        return self.sample(items, self.randint(min(least, most), most))

    def moment(self, days: int = 90) -> str:
        """A time of day within the given number of days before the end of 2025."""
        day = self.randint(1, days)
        month, of_month = 12 - (day - 1) // 30, 1 + (day - 1) % 30
        hour, minute, second = self.randrange(24), self.randrange(60), self.randrange(60)
        return f"2025-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}Z"

    def cpu(self, milli: int) -> str:
        """The quantity of that many milli-CPU in one of its notations."""
        if self.has("oddQuantities"):
            return self.choice((f"{milli * 1000}u", f"{milli / 1000:g}", f"{milli}000000n"))
        return f"{milli}m" if milli % 1000 or self.chance(0.3) else str(milli // 1000)

    def size(self, mebibytes: int) -> str:
        """The quantity of that many MiB, or nearly so, in one of its notations."""
        if self.has("oddQuantities"):
            return self.choice(
                (
                    str(mebibytes << 20),
                    f"{mebibytes}M",
                    f"{mebibytes}e6",
                    f"{mebibytes << 20}000m",
                    f"{mebibytes / 1024:.2f}Gi",
                    f"{mebibytes << 10}Ki",
                )
            )
        if mebibytes % 1024 == 0:
            return f"{mebibytes // 1024}Gi"
        return f"{mebibytes}Mi"


def without_empty(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the keys whose value says nothing."""
    return {key: value for key, value in document.items() if value not in (None, [], {}, "")}
