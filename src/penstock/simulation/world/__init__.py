"""A real broker with simulated clients."""
