"""What every actor of the broker is made of: turns, lanes between actors, outputs."""
