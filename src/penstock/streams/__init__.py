"""The log of a stream: columnar chunks in segments, their index, retention, recovery. Pure."""
