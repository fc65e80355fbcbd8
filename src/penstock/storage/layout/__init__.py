"""The layout of everything the message store writes."""
