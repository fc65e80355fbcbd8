"""What a whole broker has one of.

In it: the registries of stores and streams, the share of memory each queue gets, failure
    handling.
Enters: queues that begin and end, and the memory that is in use.
Leaves: stores for queues, and targets for the pagers.
Begin with: store_registry.
"""
