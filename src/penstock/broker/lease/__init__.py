"""Leased reading: ranges of a queue that readers hold until they settle them.

In it: the actor that hands out ranges, its book, and what a restart brings back.
Enters: requests of readers, and the time at which a lease ends.
Leaves: ranges of messages, and settlements of whole ranges.
Begin with: lease_actor.
"""
