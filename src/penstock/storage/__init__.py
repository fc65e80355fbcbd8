"""The message store: a log of segments with a file of acknowledgements beside each."""
