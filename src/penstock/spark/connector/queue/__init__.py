"""Reading queues by consumers."""
