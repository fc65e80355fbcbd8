"""Scenarios, and random worlds that are drawn from a seed and made smaller when they fail.

In it: queues with rules, delays, paging, dead letters, random graphs.
Enters: a name and a seed.
Leaves: a `RunReport`.
Begin with: scenarios.
"""
