"""Finds out who held whom, and the root causes.

In it: intervals from events, blame of one bucket, the same for many buckets with arrays.
Enters: gate events of all actors.
Leaves: blamed nanoseconds by victim, root and cause, which sum up to the time held.
Begin with: blame.
"""
