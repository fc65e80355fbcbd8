"""Floor 3: from exchange and routing key to queues."""
