"""Moves with proof: the fewest Pods to move so that something fits, or a node is empty.

`movable` says which Pods may move, `search` looks for a plan, `proof` carries the plan out in a
trial, move by move, and `plan` says it as data. Nothing is changed in the cluster by these. The
reasons: docs/decisions/0037-moves-are-proven.md.

`applying` carries a plan out in the cluster, beside the running scheduler, which asks `standing`
whether it can be; `orders` is what the two say to each other.
"""
