"""The simulation of fairness: tenants come and get their shares."""

from __future__ import annotations

from bench.fairness import GPU, GPUS, NODES, SCENES, Simulation

from bayplan.cache.queue_tree.report import reports


def test_a_tenant_that_comes_late_gets_room() -> None:
    simulation = Simulation(SCENES[0], seed=1)
    simulation.arrive(1)
    simulation.step()
    simulation.arrive(3)
    for _ in range(4):
        simulation.step()
    one, three = reports(simulation.cluster.world.queues, simulation.now)
    assert three.amounts[GPU].used > one.amounts[GPU].used > 0
    assert one.amounts[GPU].used + three.amounts[GPU].used <= NODES * GPUS
