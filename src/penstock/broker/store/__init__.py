"""The message store of one virtual host as an actor.

In it: batches on their way to the disk, what waits for them, and the durability of one queue.
Enters: messages and settlements of durable queues, and the ends of disk jobs.
Leaves: batches for the message log, and the news that messages are safe.
Begin with: store_actor.
"""
