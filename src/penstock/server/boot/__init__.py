"""A running broker from start to stop.

In it: the node, the configuration file, and the log for people.
Enters: the configuration, and signals.
Leaves: a broker that listens, or a sentence that says why not.
Begin with: node.
"""
