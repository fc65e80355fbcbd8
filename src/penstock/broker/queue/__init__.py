"""One classic queue as an actor."""
