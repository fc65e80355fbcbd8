"""The names of a virtual host: exchanges, queues, and the durable catalogue."""
