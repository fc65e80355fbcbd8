"""A data directory on several nodes: what the leader's broker does is recorded, and done again.

In it: the broker child with its recorded disk, the pipe to the member, the follower's applier,
copying a directory that is in use.
Enters: operations of the broker's disk; entries of a leader. Leaves: entries; files.
Begin with: pipe, then recorder, then applier.
"""
