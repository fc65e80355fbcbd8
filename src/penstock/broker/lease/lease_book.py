"""What is going on with the leases of one queue: its groups, and requests that are under way."""

from collections.abc import Callable

from penstock.broker.lease.lease_actor import LeaseActor
from penstock.flow.due import Timer
from penstock.protocol.values import Table
from penstock.queues.leases import LeaseGroup


class Order:
    """One lease.acquire. settle: takes the answer; refuse: takes a text and a code, because it
    cannot be done; count, bytes: what the group is to hold afterwards; lost: how many
    messages the answer has to own up to; mark: what the catalogue has to have before it;
    is_forgettable: of its group, see broker/lease/lease_room."""

    __slots__ = (
        "accepts_loss",
        "bytes",
        "count",
        "group",
        "holder",
        "is_forgettable",
        "lost",
        "mark",
        "query",
        "refuse",
        "settle",
        "start",
        "timeout_ms",
    )

    def __init__(
        self,
        settle: Callable[[Table], None],
        refuse: Callable[[str, int], None],
        group: str,
        start: int,
        count: int,
        bytes_: int,
    ) -> None:
        self.settle = settle
        self.refuse = refuse
        self.group = group
        self.start = start
        self.count = count
        self.bytes = bytes_
        self.timeout_ms = 0
        self.query = ""
        self.holder = ""
        self.accepts_loss = False
        self.is_forgettable = False
        self.lost = 0
        self.mark = 0


class LeaseBook:
    """The leases of one queue. under_way, waiting: requests, by group."""

    __slots__ = ("actor", "groups", "timers", "under_way", "waiting")

    def __init__(self, actor: LeaseActor) -> None:
        self.actor = actor
        self.groups: dict[str, LeaseGroup] = {}
        self.timers: dict[str, Timer] = {}
        self.under_way: dict[str, Order] = {}
        self.waiting: dict[str, list[Order]] = {}
