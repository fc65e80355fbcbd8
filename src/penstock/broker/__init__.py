"""The broker as a row of actors that take turns, without input or output.

In it: one folder for each room, in an order that tests enforce: actors first, admin last.
Enters: bytes of clients and ends of disk jobs, handed in by server/, and the time.
Leaves: bytes for clients, jobs for the disk, and events for the recorder.
Begin with: broker.
"""
