"""The message store: a log of segments with a file of acknowledgements beside each.

In it: the layout, the log in use, recovery after a crash, and checks of stores at rest.
Enters: messages and settlements of one virtual host, in batches.
Leaves: jobs that write, sync and read, and after a crash what was kept.
Begin with: log/log.
"""
