"""Floor 5: the actors, their scheduler and the broker's vocabulary of verbs."""
