"""The layout of everything the message store writes.

In it: records, heads with checksums, footers, acknowledgements, segments and their tables.
Enters: messages to be written, or bytes of a file.
Leaves: bytes of a file, or messages; a fault where bytes are damaged.
Begin with: format.
"""
