"""What the framework knows of in-tree plugins beyond their Protocols.

Their tests say that they keep within their bounds, so their answers are not checked at each call.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.config import IN_TREE
from bayplan.engine.profile_plugins import Trust

_NO_STATE = 'failed to read "{}" from cycleState: not found'

TRUSTED: Mapping[str, Trust] = dict.fromkeys(IN_TREE, Trust()) | {
    "DefaultBinder": Trust(binds_at_once=True),
    "InterPodAffinity": Trust(unprepared=_NO_STATE.format("PreScoreInterPodAffinity")),
    "PodTopologySpread": Trust(
        unprepared='error reading "PreScorePodTopologySpread" from cycleState: not found'
    ),
    "TaintToleration": Trust(unprepared=_NO_STATE.format("PreScoreTaintToleration")),
}
"""By name, every plugin that is not a user's."""
