"""Floor 0: errors, limits, clocks and containers that every other room may use."""
