"""Sockets, listeners, and which of them are ready.

In it: one epoll set, one object for a client's socket, stall timeouts.
Enters: connections and bytes from clients.
Leaves: bytes for broker/connection, and its output to the kernel.
Begin with: sockets.
"""
