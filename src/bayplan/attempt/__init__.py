"""One scheduling attempt: choose a node (`attempt`), take it (`commit`), `report` why not.

`attempt` changes nothing, so that the scheduler, `bayplan simulate` and `bayplan explain` run the
same code. `commit` lets Pods count on their nodes, all of them or none. `report` is the only writer
of events and conditions.
"""
