"""What a queue gives up, and messages that wait for their delay."""
