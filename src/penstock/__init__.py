"""Penstock: an AMQP 0-9-1 message broker whose flow control works and explains itself."""

__version__ = "0.1.0"
