"""A real broker with simulated clients.

In it: the loop of turns and deliveries, publishing and consuming clients, actions that disturb.
Enters: settings and a seed.
Leaves: a run to its end, with every law checked on the way.
Begin with: world.
"""
