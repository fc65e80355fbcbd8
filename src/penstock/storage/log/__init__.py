"""The message log in use."""
