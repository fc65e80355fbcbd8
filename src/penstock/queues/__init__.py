"""Floor 4: messages at rest, consumers and unacknowledged deliveries. Nothing here waits or writes.

    queue.py    what an actor and a pager ask of a queue's messages     line.py: without rules
    backlog.py  what of a line is on the disk (delta.py)                ruled.py: with rules
    entry.py    what memory has of one message; hooks: lifetimes.py, keys.py; rules.py: the rules
Messages enter by `add` and leave by `take`, or to a DropSink; consumers.py says who may be given
one, unacked.py and leases.py remember what is out. Begin with line.py.
"""
