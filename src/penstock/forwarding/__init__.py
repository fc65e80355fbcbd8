"""Connections of clients that outlive the broker behind them.

In it: what one client has asked for, as far as another broker has to be asked for it again: its
login, transient declarations, channels, consumers, publishes that are not confirmed.
Enters: bytes of the client and of the broker, and that the broker is gone.
Leaves: bytes for both, renumbered where numbers began anew.
Begin with: kept_connection, then kept_channel.
"""
