"""Replication of a node's log: who leads, what is committed, who may follow from where.

In it: the state machine of one member, its frames, its actions, and the choice of leaders. Nothing
here reads a clock or touches a disk: agreement comes from a coordinator, entries are opaque bytes.
Enters: what was seen of the coordinator, frames of peers, ends of disk jobs, each with a time.
Leaves: actions that the server carries out in their order.
Begin with: member, then leading and following.
"""
