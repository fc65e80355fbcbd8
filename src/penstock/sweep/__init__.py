"""Many simulated runs over a grid of settings, and a fluid model for crowds."""
