"""One log for a whole data directory on several nodes: what is decided, and what is shipped.

In it: operations on a data directory as bytes.
Enters: what a leader has done. Leaves: entries, and their operations for a follower.
Begin with: operations.
"""
