"""Reading streams, by messages and by chunks."""
