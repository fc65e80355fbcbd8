"""Turns of the loop: when input came in, run the scheduler for a slice, then let others in."""

import asyncio

from penstock.broker.scheduler import Scheduler

SLICE_NS = 5_000_000
"""No run of the scheduler holds the loop longer than this (docs/adr, style: 5 ms)."""


class Turns:
    """Owner: the node. `request` may be called any number of times per turn."""

    __slots__ = ("is_requested", "loop", "scheduler")

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        self.loop = loop
        self.scheduler = scheduler
        self.is_requested = False

    def request(self) -> None:
        """See to it that the scheduler runs before the loop waits again."""
        if not self.is_requested:
            self.is_requested = True
            self.loop.call_soon(self.run)

    def run(self) -> None:
        self.is_requested = False
        if self.scheduler.run(SLICE_NS):
            self.request()
