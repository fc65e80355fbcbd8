"""The only room with sockets, files, threads and the event loop.

In it: one folder for each room, in an order that tests enforce.
Enters: what the machine has to say: bytes, ends of writes, signals, time.
Leaves: the same to broker/, and its bytes and jobs to the machine.
Begin with: boot/node.
"""
