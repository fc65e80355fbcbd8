"""A running broker from start to stop."""
