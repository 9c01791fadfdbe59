"""Which control plane to use: the one that PROVIDER names, else the first that is at hand.

In this order: a kubeconfig given by the user, kind where Docker answers, the binaries of
`KUBEBUILDER_ASSETS`, and at last a build from Go modules, which is possible everywhere.
`kubelet` (nodes that run Pods) is taken by its name only.
"""

import os

from e2e.provider.control_plane import ControlPlane
from e2e.provider.hosted import (
    ExistingControlPlane,
    KindControlPlane,
    given_kubeconfig,
    kind_answers,
)
from e2e.provider.kubelet import KubeletControlPlane
from e2e.provider.local import AssetsControlPlane, BuiltControlPlane
from e2e.provider.programs import assets

PROVIDERS: dict[str, type[ControlPlane]] = {
    provider.provider: provider
    for provider in (
        ExistingControlPlane,
        KindControlPlane,
        AssetsControlPlane,
        BuiltControlPlane,
        KubeletControlPlane,
    )
}


def provide(*api_server_flags: str, provider: str | None = None) -> ControlPlane:
    """Return a control plane that is not started yet; for `provider` see `chosen`."""
    return chosen(provider)(*api_server_flags)


def chosen(provider: str | None = None) -> type[ControlPlane]:
    """Return the kind of control plane to use.

    Args:
        provider: one of `PROVIDERS`; None: as PROVIDER says, else what is at hand.

    Raises:
        LookupError: no provider has this name.
    """
    name = provider or os.environ.get("PROVIDER") or _at_hand()
    if name not in PROVIDERS:
        raise LookupError(f"no provider {name!r}: it is one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


def _at_hand() -> str:
    if given_kubeconfig():
        return "existing"
    if kind_answers():
        return "kind"
    return "assets" if assets() else "build"
