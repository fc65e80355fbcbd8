"""Floor 3: an AMQP 0-9-1 client role over the same protocol room."""
