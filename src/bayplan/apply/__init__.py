"""Apply: the one place where decisions take effect.

What decides (`bayplan.attempt`, plugins, preemption) reads tables and says what it wants as data;
what is here writes, by the ports of the scheduler. Nothing that decides imports it.
"""
