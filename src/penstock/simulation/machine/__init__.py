"""The simulated machine: clock, network, disk, faults."""
