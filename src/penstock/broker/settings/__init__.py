"""Settings that may change while the broker runs."""
