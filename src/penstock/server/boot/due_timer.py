"""One timer of the event loop for everything in the broker that is due at a time."""

import asyncio
from collections.abc import Callable

from penstock.base.clock import Clock
from penstock.broker.actors.log import Log
from penstock.flow.due import DueLine, Waker

NS_PER_S = 1_000_000_000


class DueTimer(Waker):
    """Calls `line.fire` when it asks for it. after: what is to be done then, so that the actors
    that were woken get their turns."""

    __slots__ = ("after", "clock", "handle", "line", "log", "loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        line: DueLine,
        log: Log,
        after: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.line = line
        self.log = log
        self.after = after
        self.handle: asyncio.TimerHandle | None = None
        line.waker = self

    def wake_at(self, due_ns: int) -> None:
        self.stop()
        delay_ns = max(0, due_ns - self.clock.monotonic_ns())
        self.handle = self.loop.call_later(delay_ns / NS_PER_S, self._fire)

    def stop(self) -> None:
        """Nothing falls due any more until something new is put on the line."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def _fire(self) -> None:
        self.handle = None
        try:
            self.line.fire(self.clock.monotonic_ns())
        except Exception as error:
            # One that fails is off the line already; the others must not wait for ever.
            self.log.error("what was due has failed", error)
            self.loop.call_soon(self._fire)
        self.after()
