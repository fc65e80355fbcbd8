"""Floor 7: the same actors under a virtual clock and a seeded scheduler."""
