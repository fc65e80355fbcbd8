"""Simulated clients: real protocol bytes through the sans-IO client session, driven as scripts.

A client is one connection with roles on it (publishing, consuming, deleting queues ...), each on
a channel of its own. It acts when the world lets it; between two acts anything may happen. What it
writes goes to its outbox, from there into the up pipe as that has room, as in a kernel.
"""

from penstock.broker.broker import Broker
from penstock.client.errors import ClientError
from penstock.client.events import (
    Blocked,
    ChannelClosed,
    ClientEvent,
    ConnectionClosed,
    Opened,
    Unblocked,
)
from penstock.client.session import ClientSession, State
from penstock.client.url import BrokerUrl
from penstock.protocol import methods as m
from penstock.protocol.content import EVENT_ACK
from penstock.simulation.laws.oracle import Books
from penstock.simulation.machine.clock import Timers
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.machine.network import SimulatedConnection

OUTBOX_BYTES = 16_384
"""A client does not act while more than this waits to be written, like one that blocks in send."""

URL = BrokerUrl(heartbeat_s=0)


class WatchedSession(ClientSession):
    """A client session that counts confirms which confirm nothing: each is a broker's mistake."""

    def __init__(self, name: str, now_ns: int) -> None:
        super().__init__(URL, name, now_ns)
        self.idle_confirms = 0

    def _take(self, events: list[ClientEvent]) -> None:
        event = self._received.event
        before = len(events)
        super()._take(events)
        if event is not None and event.kind == EVENT_ACK and len(events) == before:
            self.idle_confirms += self._is_open(int(event.channel))

    def _is_open(self, channel: int) -> bool:
        """False where confirms are passed over, because an end has been asked for."""
        if self.state is not State.OPEN:
            return False
        try:
            self.unconfirmed(channel)
        except ClientError:
            return False
        return True


class Role:
    """One thing a client does, on a channel of its own. Nominal base.

    `channel`: its number, 0 while it is not open; `is_done`: it asks for nothing more; `is_killed`:
    the simulator has made its channel fail."""

    def __init__(self) -> None:
        self.client: Client
        self.channel = 0
        self.is_done = False
        self.is_killed = False

    def opened(self) -> None:
        """The connection is open: open the channel and say what comes first."""
        self.channel = self.client.session.open_channel()[0]

    def can_act(self) -> bool:
        """Whether `act` would do something now."""
        return False

    def act(self) -> None:
        """Do one thing, or a few."""

    def happened(self, event: ClientEvent) -> None:
        """Something that concerns this channel. Raises: LawBroken."""

    def lost(self) -> None:
        """The channel has ended: by a fault, or with its connection."""
        self.is_done = True

    def end(self) -> None:
        """The world wants to close in order: stop, and close the channel."""
        if self.channel and not self.client.is_over():
            self.client.session.request(self.channel, m.ChannelClose(200, "done", 0, 0))
        self.channel = 0
        self.is_done = True


class Client:
    """One connection. `key`: unique number; `roles`: what it does; `is_reading`: False while it
    leaves its socket alone; is_told_blocked, told_count: by connection.blocked and unblocked."""

    def __init__(
        self,
        key: int,
        link: SimulatedConnection,
        broker: Broker,
        books: Books,
        dice: Dice,
        timers: Timers,
        roles: list[Role],
    ) -> None:
        self.key = key
        self.link = link
        self.broker = broker
        self.books = books
        self.dice = dice
        self.timers = timers
        self.roles = roles
        self.session = WatchedSession(link.name, timers.clock.now_ns)
        self.outbox = b""
        self.is_reading = True
        self.is_vanished = False
        self.is_ending = False
        self.is_told_blocked = False
        self.told_count = 0
        for role in roles:
            role.client = self
        self.flush()

    # -- what the world asks ---------------------------------------------------------------------

    def is_over(self) -> bool:
        """Nothing more will come of it."""
        return self.is_vanished or self.session.is_closed()

    def is_open(self) -> bool:
        """The handshake is done, and no end has been asked for."""
        return self.session.state is State.OPEN and not self.is_vanished

    def is_at_rest(self) -> bool:
        """Neither end of its link will ever do anything again."""
        return self.is_over() and self.link.shell.is_closed

    def can_read(self) -> bool:
        """Whether something waits to be read; asked only while it is not over."""
        down = self.link.down
        return self.is_reading and (len(down) > 0 or down.is_ended)

    def read(self) -> None:
        """Take some of what has arrived. Raises: LawBroken."""
        down = self.link.down
        data = down.take(self.dice.skewed(max(1, len(down))) if self.dice.happens(50) else 65_536)
        if data:
            events = self.session.feed(data, self.timers.clock.now_ns)
        else:
            events = self.session.end_of_stream()
        if self.session.idle_confirms:
            raise LawBroken(f"{self.link.name}: a confirm that confirms nothing")
        for event in events:
            self._happened(event)
        self.flush()

    def can_act(self) -> bool:
        """Whether a role would do something now; asked only while it is not over. Who says goodbye
        says nothing else."""
        if self.session.state is not State.OPEN or len(self.outbox) > OUTBOX_BYTES:
            return False
        return any(role.can_act() for role in self.roles)

    def act(self) -> None:
        """One role does something."""
        self.dice.one_of([role for role in self.roles if role.can_act()]).act()
        self.flush()

    def flush(self) -> None:
        """Move what the session says into the outbox, and as much as goes into the pipe."""
        self.outbox += self.session.output(self.timers.clock.now_ns)
        if self.outbox and not self.is_vanished:
            self.outbox = self.link.up.put(self.outbox)

    # -- endings ---------------------------------------------------------------------------------

    def is_done(self) -> bool:
        return self.is_over() or all(role.is_done for role in self.roles)

    def end(self) -> None:
        """Close everything in order."""
        if self.is_over() or self.is_ending:
            return
        if not self.is_open():
            self.vanish(False)
            return
        self.is_ending = True
        for role in self.roles:
            role.end()
        self.session.close()
        self.flush()

    def vanish(self, is_reset: bool) -> None:
        """Go without a word."""
        if self.is_over():
            return
        self.is_vanished = True
        self.link.vanish(is_reset)
        self.books.unsettle(self.key)
        for role in self.roles:
            role.lost()

    # -- events ----------------------------------------------------------------------------------

    def _happened(self, event: ClientEvent) -> None:
        if isinstance(event, Opened):
            for role in self.roles:
                role.opened()
        elif isinstance(event, ConnectionClosed):
            self._closed(event)
        elif isinstance(event, Blocked | Unblocked):
            self._told(isinstance(event, Blocked))
        else:
            number = getattr(event, "channel", 0)
            for role in self.roles:
                if role.channel == number and number:
                    role.happened(event)
                    if isinstance(event, ChannelClosed):
                        role.channel = 0
                        role.lost()

    def _told(self, is_blocked: bool) -> None:
        """connection.blocked or unblocked. Raises: LawBroken unless they alternate (property 8)."""
        if is_blocked == self.is_told_blocked:
            raise LawBroken(f"{self.link.name}: told twice that it is blocked: {is_blocked}")
        self.is_told_blocked = is_blocked
        self.told_count += 1

    def _closed(self, event: ConnectionClosed) -> None:
        if self.is_ending and event.code == 200:
            return
        if event.code not in (200, 320):
            raise LawBroken(f"{self.link.name}: closed with {event.code} {event.text}")
        self.books.unsettle(self.key)
        for role in self.roles:
            role.lost()
