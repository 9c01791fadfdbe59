"""Replay: a recording through the real queue, cache and plugins, on a virtual clock.

`lives` looks ahead once (how long Pods run), `cluster` is the scheduler and the cluster around it,
`api_server` what stands for the API server and its controllers, `outcome` what came of it.
"""
