"""What a connection does with publishes that may not go on: hold, stop reading, let go, or escape.

A publish that meets a closed hop or an alarm is kept beside its channel, one per channel and
PARKED_BYTES in all; the one that would be the second stops the reading of the socket. See the
table at the top of broker/reader.
"""

from mypy_extensions import i64

from penstock.base.limits import PARKED_BYTES
from penstock.broker.actor import Actor, Line
from penstock.broker.channel import Channel
from penstock.broker.lane import Lane
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message

STANDSTILL_NS = 100_000_000
"""How long a stopped connection with unanswered deliveries waits before it is let on."""


class HopGateObserver(GateObserver):
    """Hears when one channel's hop opens again (parking profiles)."""

    __slots__ = ("channel", "connection")

    def __init__(self, connection: "HoldingConnection", channel: Channel) -> None:
        self.connection = connection
        self.channel = channel

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if gate.is_open:
            self.connection.hop_opened(self.channel)


class HoldingConnection(Actor):
    """name: unique, readable; channels: open ones by number; alarms: source to text; stopped: the
    publish that stopped the reading, and stopped_on the gate's reason for it."""

    __slots__ = (
        "account",
        "alarms",
        "blocked_by",
        "channels",
        "is_parking",
        "is_told_blocked",
        "last_channel",
        "name",
        "parked_bytes",
        "stopped",
        "stopped_on",
        "strategy",
    )

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        is_parking: bool,
        account_high_bytes: int,
        parent: Account | None,
        line: Line,
    ) -> None:
        super().__init__("conn:" + name, line)
        self.name = name
        self.strategy = strategy
        self.is_parking = is_parking
        self.account = Account(self.identity, parent, self.gate, account_high_bytes)
        self.channels: dict[int, Channel] = {}
        self.last_channel: Channel | None = None
        self.alarms: dict[str, str] = {}
        self.is_told_blocked = False
        self.blocked_by = ""
        self.stopped: Message | None = None
        self.stopped_on: tuple[str, str] | None = None
        self.parked_bytes: i64 = 0

    def tell_blocked(self) -> None:
        """An alarm holds a publish: connection.blocked if the client knows it."""
        raise NotImplementedError

    def tell_unblocked(self) -> None:
        """The last alarm cleared after `tell_blocked`."""
        raise NotImplementedError

    def _content(self, message: Message) -> None:
        """Hand a publish to its channel, or hold it."""
        channel = self.last_channel
        if channel is None or channel.number != message.channel:
            channel = self.channels.get(message.channel)
            if channel is None:
                return
            self.last_channel = channel
        lane = channel.upstream
        if lane is None:
            return
        if self.alarms:
            self._hold_for_alarm(channel, message)
        elif self.is_parking and (lane.is_closed or channel.held is not None):
            self._hold(channel, message, channel.identity, "credit")
        else:
            self._hand_over(channel, lane, message)

    def _hand_over(self, channel: Channel, lane: Lane, message: Message) -> None:
        message.origin = self.account
        lane.items.append(message)
        self.strategy.charge(lane, self.account, 1, len(message.raw))
        if not lane.is_listed:
            channel.offered(lane)

    def _hold(self, channel: Channel, message: Message, peer: str, reason: str) -> None:
        """Keep the publish beside its channel, or stop reading when one is kept there already."""
        size: i64 = len(message.raw)
        if channel.held is None and self.parked_bytes + size <= PARKED_BYTES.default:
            channel.held = message
            self.parked_bytes += size
            return
        self.stopped = message
        self.stopped_on = (peer, reason)
        self.gate.close(peer, reason)

    def hop_opened(self, channel: Channel) -> None:
        """A channel takes publishes again: first the one that is held, then reading goes on."""
        if self.alarms:
            return
        self._release(channel, False)
        lane = channel.upstream
        is_waited_for = self.stopped_on is not None and self.stopped_on[0] == channel.identity
        if is_waited_for and lane is not None and not lane.is_closed:
            self._go_on()

    def release_held(self, channel: Channel) -> None:
        """Hand over what waits here for `channel`, its hop closed or not."""
        self._release(channel, True)
        kept = self.stopped
        if kept is not None and kept.channel == channel.number:
            self.stopped = None
            lane = channel.upstream
            if lane is not None:
                self._hand_over(channel, lane, kept)
            self._go_on()

    def _release(self, channel: Channel, is_forced: bool) -> None:
        held = channel.held
        lane = channel.upstream
        if held is None or lane is None or (lane.is_closed and not is_forced):
            return
        channel.held = None
        self.parked_bytes -= len(held.raw)
        self._hand_over(channel, lane, held)

    def _go_on(self) -> None:
        stopped_on = self.stopped_on
        if stopped_on is not None:
            self.stopped_on = None
            self.gate.open(stopped_on[0], stopped_on[1])

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, source: str, reason: str) -> None:
        """`source`, for example alarm:memory, stops this connection's publishes from now on."""
        self.alarms[source] = reason

    def clear_alarm(self, source: str) -> None:
        """`source` is over; when it was the last, publishes go on."""
        if self.alarms.pop(source, None) is None:
            return
        self._blame(next(iter(self.alarms), ""))
        if self.alarms:
            return
        if self.is_told_blocked:
            self.is_told_blocked = False
            self.tell_unblocked()
        for channel in list(self.channels.values()):
            self._release(channel, False)
            channel.wake()
        self._go_on()

    def _blame(self, source: str) -> None:
        """From now on the alarm `source` holds what another alarm held; "" for none."""
        before = self.blocked_by
        if before == "" or before == source:
            return
        now_ns = self.line.clock.monotonic_ns()
        self.blocked_by = source
        self.note_freed(before, "alarm", now_ns)
        if source != "":
            self.note_held(source, "alarm", now_ns)
            if self.stopped_on == (before, "alarm"):
                self.stopped_on = (source, "alarm")
                self.gate.close(source, "alarm")
                self.gate.open(before, "alarm")

    def _hold_for_alarm(self, channel: Channel, message: Message) -> None:
        source = next(iter(self.alarms))
        if not self.is_told_blocked:
            self.is_told_blocked = True
            self.tell_blocked()
            self.blocked_by = source
            self.note_held(source, "alarm", self.line.clock.monotonic_ns())
        self._hold(channel, message, source, "alarm")

    def stop_behind_alarm(self, channel: Channel) -> bool:
        """A method that no publish may be overtaken by has arrived: if an alarm holds a publish of
        `channel` read nothing more until it is over, and say True."""
        if not self.alarms or channel.held is None:
            return False
        if self.stopped_on is None:
            source = next(iter(self.alarms))
            self.stopped_on = (source, "alarm")
            self.gate.close(source, "alarm")
        return True

    # -- output ----------------------------------------------------------------------------------

    def stop_for_output(self) -> None:
        """The peer does not take its answers: read nothing more that would make others."""
        self.gate.close("socket:" + self.name, "socket")

    def go_on_with_output(self) -> None:
        self.gate.open("socket:" + self.name, "socket")
        for channel in list(self.channels.values()):
            channel.wake()

    def break_standstill(self, now_ns: int) -> None:
        """Liveness (law 6): a socket that is not read may hold the very acks that would let the
        queue drain. A connection that has unanswered deliveries and has been stopped for a whole
        period lets its waiting publishes through, one lane's window per period and channel, and is
        counted. A full hop is one channel's matter; debt is owed by all that are stalled."""
        if self.gate.is_open or self.alarms:
            return
        if now_ns - self.gate.blocked_at_ns < STANDSTILL_NS:
            return
        for channel in list(self.channels.values()):
            if channel.table.count > 0:
                break
        else:
            return
        holder = "" if self.stopped_on is None else self.stopped_on[0]
        for channel in list(self.channels.values()):
            if channel.identity == holder or (holder == "" and channel.is_stalled):
                channel.force_now()
