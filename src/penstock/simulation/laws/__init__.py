"""What must hold of a simulated broker, asserted between turns.

In it: laws of one moment, laws between two moments, the ledger, the oracle of messages.
Enters: a broker between two turns, and what its clients sent and saw.
Leaves: nothing, or `LawBroken`.
Begin with: checks.
"""
