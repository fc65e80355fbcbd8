"""One classic queue as an actor.

In it: taking messages from lanes, serving consumers, rules, the rate of a queue, its depth mark.
Enters: messages on the lanes of channels, and what consumers settle.
Leaves: deliveries, acceptances to channels, dead letters, and grants to publishers.
Begin with: queue_actor.
"""
