"""Which group of a queue may go when another one comes and there are as many as there may be.

Only a group that its client lets go for this, as one does whose name was made up for a single
checkpoint: nobody would ever release it. It has to hold nothing, and to have been silent for its
time. If it asks again after all, it is told LEASE_LOST, and nothing is lost without a word.
"""

from penstock.broker.lease.lease_book import LeaseBook


def may_go(book: LeaseBook, now_ns: int) -> str:
    """The name of the one that has been silent for longest, "" when all have to stay.
    now_ns: monotonic."""
    found = ""
    since_ns = now_ns
    for name, group in book.groups.items():
        renewed_ns = int(group.renewed_ns)
        if (
            group.is_forgettable
            and group.held_count == 0
            and name not in book.under_way
            and now_ns - renewed_ns >= int(group.timeout_ns)
            and renewed_ns < since_ns
        ):
            found, since_ns = name, renewed_ns
    return found
