"""The HTTP API by resource: one module for each, found by its address.

In it: handlers, each a function of one request, and tables of addresses.
Enters: a request of a visitor who has logged in.
Leaves: rows as JSON, or a fault.
Begin with: overview.
"""
