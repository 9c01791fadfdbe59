"""The scheduling queue: which Pod is tried next, and when a rejected one is tried again.

No I/O, no locks; the clock is a parameter. Only the scheduling thread uses it. Start with
`bayplan.queue.scheduling_queue`; `bayplan.queue.states` shows where a Pod can be.
"""
