"""The lab: the same workloads over every strategy, in virtual time, with costs that mean time."""
