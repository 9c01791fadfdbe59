"""Preemption: which Pods to evict for a Pod of higher priority, and the eviction.

Used by the DefaultPreemption plugin if Filter finds no feasible node. The steps:

    eligible? > dry run on candidate nodes > extenders > best node > eviction in the background

Answers to kube-scheduler's ``pkg/scheduler/framework/preemption`` and its plugin
``defaultpreemption``.
"""
