"""The log of one stream.

In it: columnar chunks, segments, indexes by offset and time, retention and recovery.
Enters: messages in batches from broker/stream, and positions to read from.
Leaves: chunks as bytes to be written, and chunks or messages read back.
Begin with: chunk.
"""
