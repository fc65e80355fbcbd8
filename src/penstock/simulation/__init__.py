"""The broker's own actors under a virtual clock, a seeded scheduler and simulated faults.

In it: the machine, the laws, the world of clients, scenarios and random worlds.
Enters: a scenario and a seed.
Leaves: a report, or the first broken law with the command that replays it.
Begin with: world/world.
"""
