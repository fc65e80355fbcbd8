"""Floor 4: messages at rest, consumers and unacknowledged deliveries.

In it: queues without rules (line, backlog) and with (ruled, entry; hooks: lifetimes, keys), who may
be given a message (consumers), and what is out (unacked, leases). Nothing here waits or writes.
Enters: messages, rules, and what was read from the disk.
Leaves: messages for consumers, what a queue gives up, and requests to save and to read.
Begin with: line.
"""
