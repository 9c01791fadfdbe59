"""Report: what users read of decisions: events, and conditions of Pods, PodGroups and Queues.

Nothing else writes these, but for plugins that name themselves in their events. What decides
imports nothing of this room.
"""
