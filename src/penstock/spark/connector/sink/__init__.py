"""Writing to exchanges and queues."""
