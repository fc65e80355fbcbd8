"""Reads ordinary queues by leases, exactly once.

In it: the plan of a batch as a range of leased numbers, requests to the broker, the reader.
Enters: the start of the next batch, which settles everything before it.
Leaves: ranges, and their messages in order, as often as Spark asks.
Begin with: lease_source.
"""
