"""Leased reading of queues."""
