"""How many files the process may have open, and how many of them are not for clients.

A store that cannot open a file cannot confirm, so sockets leave it some: the system gives the
smallest free number to what is opened next, and a socket with one near the end means that all
before it are taken.
"""

import resource
from typing import Final

from penstock.base.limits import HANDLES_KEPT

SHARE: Final = 4
"""Where few files may be open at all, one part in this many is kept."""


def raise_limit(clients_max: int) -> int:
    """Allow the process files for `clients_max` sockets and for itself, as far as the system lets
    it. Returns what is allowed then. Changes the whole process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = clients_max + HANDLES_KEPT.default
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        # Some systems have a bound below the one they name; what there is has to do.
        return soft
    return allowed


def kept_of(limit: int) -> int:
    """How many of `limit` files are not for clients. limit: 0.. ."""
    return min(HANDLES_KEPT.default, limit // SHARE)


def end_for_clients() -> int:
    """The first number of a socket that is not for a client; -1 where files are unlimited."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return -1 if soft == resource.RLIM_INFINITY else soft - kept_of(soft)
