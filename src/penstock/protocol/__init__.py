"""AMQP 0-9-1 as bytes and values.

In it: frames, methods, contents, properties, tables of headers.
Enters: bytes from a client, or values to be sent to one.
Leaves: events (a method, a message, a heartbeat) or bytes; a ConnectionFault with the reply code
    of the specification where the bytes are wrong.
Begin with: frames.
"""
