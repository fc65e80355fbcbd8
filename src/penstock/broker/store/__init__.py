"""The message store as an actor, and the durability of one queue."""
