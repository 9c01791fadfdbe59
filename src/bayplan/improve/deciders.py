"""Deciders: what of a scheduler answers questions about moves."""

from __future__ import annotations

from typing import Protocol

from bayplan.groups.placers import Placers
from bayplan.profiles import Profiles
from bayplan.world import World


class Deciders(Protocol):
    """A cluster, and who decides there; `bayplan.app.assembly.Core` is one."""

    @property
    def world(self) -> World:
        """What is known of the cluster."""

    @property
    def placers(self) -> Placers:
        """Decide about Pods and groups."""

    @property
    def profiles(self) -> Profiles:
        """The profiles that decide at present."""
