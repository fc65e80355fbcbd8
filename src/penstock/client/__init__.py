"""The client's side of the protocol, without input or output.

In it: a connection and its channels as state machines, for the simulator, perf and the connector.
Enters: bytes from a broker and calls of a program.
Leaves: bytes for the broker and what arrived for the program.
Begin with: session.
"""
