"""MyScore: nodes score by a number that stands in one of their labels."""

from dataclasses import dataclass

from bayplan.framework import CycleState, Depends, NodeInfo, Normalizer, Plugin, Pod


@dataclass
class MyScoreArgs:
    """What stands under pluginConfig."""

    label: str = "example.com/score"


class MyScore(Plugin):
    """Prefers nodes with a high number in a label; no number counts as 0."""

    Args = MyScoreArgs
    args: MyScoreArgs
    normalizer = Normalizer()  # the best node gets 100, the others their share of it
    score_depends = Depends.NODE  # so an answer holds until the node changes

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Any number: the normalizer brings it to 0..100."""
        number = node.labels.get(self.args.label, "")
        return int(number) if number.isdecimal() else 0
