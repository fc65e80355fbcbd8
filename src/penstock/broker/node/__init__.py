"""What a whole broker has one of."""
