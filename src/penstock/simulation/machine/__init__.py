"""The simulated machine: clock, dice, network, disk, crashes, faults.

In it: stand-ins for what server/ does with time, chance, sockets and files.
Enters: calls of the broker through the same bases as the real ones.
Leaves: bytes and jobs that end when the dice say so.
Begin with: disk and network.
"""
