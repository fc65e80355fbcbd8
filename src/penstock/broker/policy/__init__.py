"""Policies: patterns of names, and the settings they give to queues.

In it: the policies themselves, their patterns, and the sweep that applies a change.
Enters: policies from operators, and names of queues.
Leaves: rules of queues and limits of publishers.
Begin with: policies.
"""
