"""One connection: reading, parking, notices.

In it: the actor of a connection, what it holds back and why, and what its client is told of it.
Enters: bytes from a socket.
Leaves: messages and methods for channels, and the decision to stop reading.
Begin with: connection.
"""
