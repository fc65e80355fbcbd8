"""Sockets, listeners and the poller."""
