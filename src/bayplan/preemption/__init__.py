"""Preemption: the Pods to evict for a Pod or a group that fits nowhere.

For a Pod (`plugin`), if Filter finds no feasible node:

    eligible? > dry run on candidate nodes > extenders > best node > effect: evict

For a group, or a Pod that a limit holds back (`group`), one of two strategies finds the victims:
`shortest_prefix` or `reprieve`. `bayplan.apply` evicts.

Answers to kube-scheduler's ``pkg/scheduler/framework/preemption`` and its plugin
``defaultpreemption``.
"""
