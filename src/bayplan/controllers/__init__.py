"""Controllers: the status of PodGroups, ElasticQuotas and Queues, and requests for nodes.

A process of its own (``bayplan controllers``), built on kopf. The scheduler never waits for it, and
never reads what it writes.

- `bayplan.controllers.watched`: the objects, as kopf brings them.
- `bayplan.controllers.statuses`: what each status should be. No I/O.
- `bayplan.controllers.provisioning`: which ProvisioningRequests there should be. No I/O.
- `bayplan.controllers.provisioner`: makes these, where that is asked for.
- `bayplan.controllers.operator`: kopf's handlers, the Lease, and the writes.
"""
