"""Queues as actors: what all types share, and the classic queue.

In it: the contract of a queue type, taking messages from lanes, serving consumers, rules, the depth
    mark.
Enters: messages on the lanes of channels, and what consumers settle.
Leaves: deliveries, acceptances to channels, dead letters, and grants to publishers.
Begin with: queue_actor, then classic_actor.
"""
