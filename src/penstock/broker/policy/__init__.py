"""Policies: patterns of names, and the settings they give to queues."""
