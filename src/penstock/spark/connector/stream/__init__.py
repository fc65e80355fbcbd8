"""Reads streams, by messages from any broker and by whole chunks from Penstock.

In it: plans, the ends of a stream, reader groups, the chunk format into columns.
Enters: offsets or times to begin at.
Leaves: ranges of offsets, and their rows.
Begin with: stream_source.
"""
