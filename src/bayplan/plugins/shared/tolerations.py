"""Which taint sets keep a Pod away, asked once for each set."""

from __future__ import annotations

from bayplan.api.pod import SpecPart
from bayplan.api.tolerations import repels
from bayplan.plugins.shared.coded_answers import CodedAnswers


def repelling_taints(constraints: SpecPart) -> CodedAnswers:
    """For ``constraints.memo``: whether a taint set (of ``nodes.taints``) keeps the Pod away."""
    tolerations = constraints.spec.tolerations
    return CodedAnswers(lambda taints: repels(taints, tolerations), absent=False)
