"""Stream queues as actors."""
