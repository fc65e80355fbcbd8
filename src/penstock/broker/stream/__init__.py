"""Stream queues as actors.

In it: the actor of a stream, cursors of its consumers, reader groups, and its batches to the
    disk.
Enters: messages on the lanes of channels, and chunks read back.
Leaves: deliveries by offset, chunks to be written, and confirms once they are safe.
Begin with: stream_actor.
"""
