"""What a crash has left, read back.

In it: segments of an earlier life, damaged ends and headers, and the runs of each queue.
Enters: the files of a store.
Leaves: the log, its queues, and a report of what was cut off or lost.
Begin with: recovery.
"""
