"""The names of one virtual host.

In it: exchanges and queues by name, arguments of declarations, and the catalogue of what is
    durable.
Enters: declarations, bindings and deletions that a session has checked.
Leaves: actors of queues, routes, and changes of the catalogue for the disk.
Begin with: vhost.
"""
