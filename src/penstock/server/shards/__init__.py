"""Nodes with several workers, each a member of a replicated log of its own, a shard, so that
different nodes lead different virtual hosts (adr/0044).

In it: the parent of a node's members, one member's process, the agreement on who has which virtual
host, answers about all shards.
Enters: questions to the parent's control sockets. Leaves: questions to the members' own.
Begin with: placement, then parent, then child.
"""
