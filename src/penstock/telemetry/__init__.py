"""Floor 1: what happened, how time was spent, and why somebody waited."""
