"""Floor 4: messages at rest, consumers and unacknowledged deliveries."""
