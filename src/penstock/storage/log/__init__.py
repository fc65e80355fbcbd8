"""The message log in use.

In it: appending in batches, reading back, compaction, recycled segments, open files.
Enters: messages with their queues and positions, and settlements.
Leaves: jobs for the disk thread, each with what is to be done when it ends.
Begin with: log.
"""
