"""Decide: decisions about Pods and groups, as values.

`deciding` makes a `Decision` in a trial: the Pods that it places count on their nodes, reserved by
the plugins, until its ``with`` block ends. What else is to be done (evict Pods, write to the API
server) is data in the decision, its effects. The scheduler applies a decision (`bayplan.apply`);
``explain`` and ``simulate`` read it.

The reasons: docs/decisions/0024-decide-then-apply.md.
"""
