"""Gains: measures that are to fall, and what a Pod adds to each of these on a node.

============ ================================================================ ==================
goal         measure                                                          plugin
============ ================================================================ ==================
``survive``  survivors that are missing, over all workloads with a rule       BlastRadius
``cost``     what Pods cost an hour, traffic included                         DomainCost
``packing``  devices that are of no use for typical Pods                      LeastFragmentation
============ ================================================================ ==================

A Pod that moves from one node to another lets the measure fall by what it adds on the first, less
what it adds on the second, both without the Pod. So falls of moves that are made one after the
other add up to that of the plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from bayplan.api.pod import Pod
from bayplan.cache.node_price import FloatArray
from bayplan.framework.interface import Plugin
from bayplan.improve.deciders import Deciders
from bayplan.improve.goals import Goal, GoalError
from bayplan.plugins.blast_radius import BlastRadius
from bayplan.plugins.domain_cost import DomainCost
from bayplan.plugins.least_fragmentation import LeastFragmentation

P = TypeVar("P", bound=Plugin)


class Survivors:
    """See the module's docstring."""

    def __init__(self, plugins: Iterable[tuple[str, BlastRadius]]) -> None:
        self._by_profile = {name: plugin.survivors for name, plugin in plugins}
        lacking = [
            (placed.pods, outlook.rule.need - outlook.survivors)
            for survivors in self._by_profile.values()
            for placed, outlook in survivors.outlooks()
            if outlook.survivors < outlook.rule.need
        ]
        self.needed = float(sum(number for _, number in lacking))
        self._at_risk = {uid for pods, _ in lacking for uid in pods}

    def concerns(self, pod: Pod) -> bool:
        """See `bayplan.improve.goals.Gain`."""
        return pod.uid in self._at_risk and pod.spec.scheduler_name in self._by_profile

    def kind(self, pod: Pod) -> Hashable:
        """See `bayplan.improve.goals.Gain`."""
        return pod.shape.id

    def added(self, pod: Pod) -> FloatArray:
        """See `bayplan.improve.goals.Gain`."""
        return self._by_profile[pod.spec.scheduler_name].missing_with(pod)


class Cost:
    """See the module's docstring."""

    def __init__(self, plugins: Iterable[tuple[str, DomainCost]], needed: float) -> None:
        self._by_profile, self.needed = dict(plugins), needed

    def concerns(self, pod: Pod) -> bool:
        """See `bayplan.improve.goals.Gain`."""
        return pod.spec.scheduler_name in self._by_profile

    def kind(self, pod: Pod) -> Hashable:
        """See `bayplan.improve.goals.Gain`."""
        return pod.spec.scheduler_name, self._by_profile[pod.spec.scheduler_name].kind(pod)

    def added(self, pod: Pod) -> FloatArray:
        """See `bayplan.improve.goals.Gain`."""
        return self._by_profile[pod.spec.scheduler_name].costs(pod)


class Stranded:
    """See the module's docstring.

    Attributes:
        now: how many devices are stranded.
    """

    def __init__(self, plugins: Iterable[tuple[str, LeastFragmentation]], needed: float) -> None:
        self._by_profile, self.needed = dict(plugins), needed
        # Which Pods are typical is found out with nothing in trial.
        self.now = max(plugin.stranded() for plugin in self._by_profile.values())

    def concerns(self, pod: Pod) -> bool:
        """See `bayplan.improve.goals.Gain`."""
        return pod.spec.scheduler_name in self._by_profile

    def kind(self, pod: Pod) -> Hashable:
        """See `bayplan.improve.goals.Gain`."""
        return pod.spec.scheduler_name, self._by_profile[pod.spec.scheduler_name].kind(pod)

    def added(self, pod: Pod) -> FloatArray:
        """See `bayplan.improve.goals.Gain`."""
        return self._by_profile[pod.spec.scheduler_name].strands(pod)


def surviving(core: Deciders) -> Goal:
    """Every workload survives what its rule says.

    Raises:
        GoalError: no profile has BlastRadius.
    """
    gain = Survivors(_plugins(core, BlastRadius))
    number = int(gain.needed)
    missing = f"{number} survivor{'s' if number != 1 else ''} missing now"
    return Goal(f"all workloads survive as their rules say ({missing})", gain=gain, mends=True)


def saving(core: Deciders, amount: float) -> Goal:
    """So much an hour is saved.

    Raises:
        GoalError: no profile has DomainCost.
    """
    gain = Cost(_plugins(core, DomainCost), amount)
    return Goal(f"at least {amount:g} an hour is saved", gain=gain)


def unstranding(core: Deciders, devices: float) -> Goal:
    """So many devices fewer are of no use for typical Pods.

    Raises:
        GoalError: no profile has LeastFragmentation.
    """
    gain = Stranded(_plugins(core, LeastFragmentation), devices)
    title = f"at least {devices:g} devices fewer than {gain.now:.4g} are stranded"
    return Goal(title, gain=gain)


def _plugins(core: Deciders, cls: type[P]) -> list[tuple[str, P]]:
    found = [
        (name, plugin)
        for name, framework in core.profiles.items()
        for plugin in framework.plugins.all
        if isinstance(plugin, cls)
    ]
    if not found:
        raise GoalError(f"no profile has the plugin {cls.__name__}: give --config")
    return found
