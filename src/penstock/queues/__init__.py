"""The messages of one queue and its consumers, as pure data.

In it: messages in order, in memory and paged, with priorities, lifetimes and keys; consumers,
    what is unacknowledged, dead-letter headers, policies merged to rules.
Enters: messages from an actor in broker/, and messages read back from the disk.
Leaves: the next message for a consumer, and what a rule gives up.
Begin with: queue.
"""
