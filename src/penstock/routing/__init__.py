"""Exchanges, bindings, and the way from an exchange to queues.

In it: one module for each exchange type, the router that follows bindings, and canonical forms.
Enters: the exchange, the routing key and, where needed, the headers of one publish.
Leaves: the destinations it reaches, each once.
Begin with: router.
"""
