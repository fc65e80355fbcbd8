"""What may change while the broker runs.

In it: settings with their checks, rates, the ledger of accounts and the watch over hops.
Enters: changes from policies, commands and the configuration.
Leaves: new values in the actors that use them.
Begin with: settings.
"""
