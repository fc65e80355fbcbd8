"""The control socket and the questions it answers."""
