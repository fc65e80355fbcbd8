"""Floor 7: the penstock command."""
