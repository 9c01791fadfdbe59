"""Kept answers: cached answers of the row-local plugins of a profile.

The answer of a row-local plugin (`Depends` without CLUSTER) depends only on the Pod and one row. So
it is valid until that row changes. For the next Pod of the same shape only the rows in the table's
journals are recomputed: after a binding, one row.

One file each, from the bottom up:

`kept_scores.KeptScores`
    Raw scores that outlive a cycle because they are normalized by the highest one (TaintToleration)
    or do not change with Pods (ImageLocality). A column that is zero on every row is not stored.
`part.PartAnswers`
    The answers of those plugins that read the same part of a Pod (`PodPart`): its requests, its
    constraints, or all of it. Columns over all rows: `fits`, `scores` and kept raw scores. A part
    is shared by all Pods with equal requests (or constraints), whatever else they differ in.
`joined.RowAnswers`
    For one kind of Pod, its parts joined: `fits` where all parts fit, `totals` of all scores. What
    needs all parts is computed here: the highest raw score among the nodes that fit.

`load_groups.GroupedAnswers`
    In very large clusters, for a Pod of a new size: one row of all that are as full is evaluated.
    Such answers hold for one attempt.

`answer_cache.AnswerCache` finds or makes the `RowAnswers` of a Pod, and drops the least recently
used.

A worked refresh
----------------
Three nodes. Pod P requests 1 CPU and tolerates nothing; row 1 has a PreferNoSchedule taint. The
first Pod of the kind has filled everything in::

    requests part      fits   [T T T]    scores   [75 50 75]     (NodeResourcesFit)
    constraints part   fits   [T T T]    kept raw {TaintToleration: [0 1 0]}
    joined             fits   [T T T]    measures   {TaintToleration: 1}
                       totals [375 50 375]

TaintToleration has weight 3 and is normalized in reverse: raw 0 gives 100, the highest raw score 0.
Row 0 has 75 + 3 * 100, row 1 has 50 + 0.

P is bound to row 0, so ``pod_journal`` gets ``[0]``. The next Pod of the kind comes:

1. The constraints part has no stage that looks at Pods. Only ``node_journal`` concerns it, and that
   has not moved: nothing to do.
2. The requests part asks NodeResourcesFit about row 0. It has seen a node as full as that before
   (`LiveNodeTable.load`), so the answer comes from a dictionary: fits, 50. ``scores[0] = 50``.
3. The joined answers read row 0 of each part: it fits in all of them, and its total becomes
   50 + 3 * 100 = 350. The same rows fit as before, and no raw score has changed, so the highest one
   is not looked for again, and the totals of the other rows stay as they are: ``[350 50 375]``.

Had row 1 become full in the meantime, the highest raw score among nodes that fit would have become
0, and all totals would have been recomputed from the kept raw scores, without calling a plugin.

Now a Pod comes that differs from P in a label: no in-tree plugin reads labels here, so it uses the
same joined answers. One that requests 2 CPU gets a requests part of its own, computed over all
rows, but the same constraints part.

When answers go stale
---------------------
- A row changes: see above. After many changes (`part.far_behind`) all rows are computed: that is
  faster than to pick the changed ones. Answers that are so far behind give their columns back,
  unless they hold something that changes of Pods leave as it is.
- A journal no longer has all changes: the part starts over.
- A plugin whose answers depend on one thing about all rows (ImageLocality: how many nodes have an
  image) says so by an `epoch`; when that changes its part starts over.
- A part that starts over gets a new `generation`, which makes its joined answers start over too.
- A plugin raises an exception: the part resets its journal positions; the next refresh starts over.
"""

from bayplan.engine.row_answers.answer_cache import AnswerCache
from bayplan.engine.row_answers.joined import RowAnswers
from bayplan.engine.row_answers.part import masked

__all__ = ["AnswerCache", "RowAnswers", "masked"]
