"""Follows: whose Pods a shadow judges, and by which configuration."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from zlib import crc32

from bayplan.api.pod import Pod
from bayplan.cache.pod_groups import label_key
from bayplan.config import ConfigError, EffectiveConfig, FieldError


@dataclass(frozen=True)
class Follows:
    """The Pods to judge. What all others do is followed, too: it is part of the state.

    Attributes:
        scheduler: their spec.schedulerName.
        namespaces: where they are; empty for everywhere.
        share: of them, 0 to 1; the same Pod is always in the same share, and so are all Pods of a
            PodGroup.
    """

    scheduler: str
    namespaces: Collection[str] = ()
    share: float = 1.0

    def is_theirs(self, pod: Pod) -> bool:
        """Whether the other scheduler decides about ``pod``."""
        return pod.spec.scheduler_name == self.scheduler

    def __contains__(self, pod: Pod) -> bool:
        return (
            self.is_theirs(pod)
            and (not self.namespaces or pod.namespace in self.namespaces)
            and (self.share >= 1 or crc32(_together(pod).encode()) < self.share * 2**32)
        )


def _together(pod: Pod) -> str:
    """The same for Pods that are in the same share."""
    if pod.pod_group:
        return f"{pod.namespace}/{pod.pod_group}"
    return label_key(pod.shape) or pod.uid


def judging(config: EffectiveConfig, scheduler: str) -> EffectiveConfig:
    """The same configuration, to judge the Pods of ``scheduler``: all nodes are scored.

    A configuration with one profile judges by that one, whatever its name.

    Raises:
        ConfigError: there are several profiles, none of that name.
    """
    profiles = [one for one in config.profiles if one.scheduler_name == scheduler]
    if not profiles and len(config.profiles) > 1:
        names = ", ".join(one.scheduler_name for one in config.profiles)
        text = f"none of {names} is {scheduler}, whose Pods are to be judged"
        raise ConfigError([FieldError("profiles", text)])
    profile = (profiles or config.profiles)[0]
    judge = replace(profile, scheduler_name=scheduler, percentage_of_nodes_to_score=100)
    return replace(config, profiles=(judge,))
