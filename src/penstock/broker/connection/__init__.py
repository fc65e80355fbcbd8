"""One connection: reading, holding back, notices to its client."""
