"""What a connection does with publishes that may not go on: hold, stop reading, let go, or escape.

A publish that meets a closed hop or an alarm is kept beside its channel, one per channel and
PARKED_BYTES in all; the one that would be the second stops the reading of the socket. See the
table at the top of broker/connection/reader. What an alarm does to a publish is the connection's
alarm_action, unless a policy says otherwise of the publish's queue (broker/connection/alarm_route):

    block   hold it, tell connection.blocked (the default)
    nack    on a confirming channel answer basic.nack, in the publish's place; otherwise block
    close   connection.close 320 with the alarm's reason

Without parking (RabbitMQ's profiles) block stops the whole socket at the first content frame, so a
publish without a body, which is complete with that frame, still gets in (scenario 69).
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.base.limits import PARKED_BYTES
from penstock.broker.actors.actor import Actor, Line
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.alarm_route import action_for
from penstock.broker.connection.told import Told
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.rate import RatePayer
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message

ACTION_BLOCK: Final = "block"
ACTION_NACK: Final = "nack"
ACTION_CLOSE: Final = "close"
REFUSED: Final = -1
"""In place of a publish sequence: the channel answers it with basic.nack."""

STANDSTILL_NS: Final = 100_000_000
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
        "alarm_action",
        "alarms",
        "blocked_by",
        "channels",
        "is_parking",
        "is_told_blocked",
        "last_channel",
        "name",
        "notices",
        "parked_bytes",
        "rated",
        "stopped",
        "stopped_on",
        "strategy",
    )

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        is_parking: bool,
        parent: Account | None,
        line: Line,
    ) -> None:
        super().__init__("conn:" + name, line)
        self.name = name
        self.strategy = strategy
        self.is_parking = is_parking
        self.account = Account(self.identity, parent, self.gate, 0)
        self.channels: dict[int, Channel] = {}
        self.last_channel: Channel | None = None
        self.alarms: dict[str, str] = {}
        self.alarm_action = ACTION_BLOCK
        self.is_told_blocked = False
        self.notices = Told()
        self.blocked_by = ""
        self.stopped: Message | None = None
        self.stopped_on: tuple[str, str] | None = None
        self.parked_bytes: i64 = 0
        self.rated: RatePayer | None = None

    def is_above_rate(self, channel: Channel, lane: Lane, message: Message) -> bool:
        """Whether a rate limit holds `message`, which is then kept; False if it is paid for."""
        raise NotImplementedError

    def pays_rate(self, channel: Channel, held: Message, is_forced: bool) -> bool:
        """Whether `held` is paid for and may leave; with `is_forced` it is, and goes into debt."""
        raise NotImplementedError

    def alarm_reason(self) -> str:
        """Why publishing is held, as clients are told."""
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
        if self.alarms and not self._is_refused(channel, message):
            self._hold_for_alarm(channel, lane, message)
        elif self.rated is not None and self.is_above_rate(channel, lane, message):
            return
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
        self.notices.publish_held(channel)
        size: i64 = len(message.raw)
        if channel.held is None and self.parked_bytes + size <= PARKED_BYTES.default:
            channel.held = message
            self.parked_bytes += size
            return
        if reason == "credit" and self._is_let_on(channel, message):
            return
        self.stopped = message
        self.stopped_on = (peer, reason)
        self.gate.close(peer, reason)

    def _is_let_on(self, channel: Channel, message: Message) -> bool:
        """The connection is about to be stopped for one of several channels, which holds up the
        others: the strategy may give that one more credit. True if `message` has gone on."""
        lane = channel.upstream
        if lane is None or len(self.channels) < 2:
            return False
        self.strategy.passed([lane])
        if lane.is_closed or channel.held is not None:
            return False
        self._hand_over(channel, lane, message)
        return True

    def hop_opened(self, channel: Channel) -> None:
        """A channel takes publishes again: first the one that is held, then reading goes on."""
        held = channel.held
        if self.alarms and held is not None and not self._can_refuse(channel, held):
            self._pass_to_alarm(channel)
            return
        self._release(channel, False)
        lane = channel.upstream
        is_waited_for = self.stopped_on is not None and self.stopped_on[0] == channel.identity
        # With its place free the publish that stopped the reading can be held as well: whatever is
        # behind it, acknowledgements above all, need not wait for another grant.
        has_place = channel.held is None
        if is_waited_for and lane is not None and (has_place or not lane.is_closed):
            self._go_on()

    def release_held(self, channel: Channel) -> None:
        """Hand over what waits here for `channel`, its hop closed or not."""
        self._release(channel, True)
        kept = self.stopped
        if kept is not None and kept.channel == channel.number:
            self.stopped = None
            lane = channel.upstream
            if lane is not None:
                if self.rated is not None:
                    self.pays_rate(channel, kept, True)
                self._hand_over(channel, lane, kept)
            self._go_on()

    def _release(self, channel: Channel, is_forced: bool) -> None:
        held = channel.held
        lane = channel.upstream
        if held is None or lane is None or (lane.is_closed and not is_forced):
            return
        if self.rated is not None and not self.pays_rate(channel, held, is_forced):
            return
        channel.held = None
        self.parked_bytes -= len(held.raw)
        self._hand_over(channel, lane, held)

    def _go_on(self) -> None:
        stopped_on = self.stopped_on
        if stopped_on is not None:
            self.stopped_on = None
            self.gate.open(stopped_on[0], stopped_on[1])
            if self.is_told_blocked and stopped_on == (self.blocked_by, "alarm"):
                # The channel that stopped the reading has ended; the alarm still holds the rest.
                self.note_held(stopped_on[0], "alarm", self.line.clock.monotonic_ns())

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, source: str, reason: str) -> None:
        """`source`, for example alarm:memory, stops this connection's publishes from now on."""
        self.alarms[source] = reason
        self.notices.alarms_changed()

    def clear_alarm(self, source: str) -> None:
        """`source` is over; when it was the last, publishes go on."""
        if self.alarms.pop(source, None) is None:
            return
        self._blame(next(iter(self.alarms), ""))
        if self.alarms:
            return
        if self.is_told_blocked:
            self.is_told_blocked = False
            self.notices.unblocked_by_alarm()
        self.notices.alarms_changed()
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

    def _is_refused(self, channel: Channel, message: Message) -> bool:
        """Whether the publish goes on to be answered basic.nack. Raises: ConnectionFault 320, when
        that is the action: what clients that reconnect by themselves take for a passing trouble."""
        action = self._action_for(channel, message)
        if action == ACTION_BLOCK:
            return False
        if action == ACTION_CLOSE:
            raise ConnectionFault(
                320, f"broker forced connection closure with reason '{self.alarm_reason()}'"
            )
        return self._can_refuse(channel, message)

    def _can_refuse(self, channel: Channel, message: Message) -> bool:
        """Mark `message` to be answered basic.nack, if that is the action and the channel confirms;
        also one that was held for credit before the alarm."""
        publisher = channel.publisher
        confirms = None if publisher is None else publisher.confirms
        if confirms is None or confirms.commits is not None:
            return False
        if self._action_for(channel, message) != ACTION_NACK:
            return False
        message.sequence = REFUSED
        return True

    def _action_for(self, channel: Channel, message: Message) -> str:
        """What an alarm does to `message`: what its queues' policies say, or the connection's."""
        publisher = channel.publisher
        if publisher is None:
            return self.alarm_action
        return action_for(publisher, message, self.alarm_action)

    def _pass_to_alarm(self, channel: Channel) -> None:
        """The hop of `channel` has opened: from now on it is an alarm that holds its publish."""
        source = next(iter(self.alarms))
        self._note_alarm(source)
        if self.stopped_on == (channel.identity, "credit"):
            self.stopped_on = (source, "alarm")
            self.gate.close(source, "alarm")
            self.gate.open(channel.identity, "credit")

    def _note_alarm(self, source: str) -> bool:
        """The alarm `source` holds a publish; True, and the client is told, if it is the first."""
        if self.is_told_blocked:
            return False
        self.is_told_blocked = True
        self.notices.blocked_by_alarm(self.alarm_reason())
        self.blocked_by = source
        self.note_held(source, "alarm", self.line.clock.monotonic_ns())
        return True

    def _hold_for_alarm(self, channel: Channel, lane: Lane, message: Message) -> None:
        source = next(iter(self.alarms))
        is_first = self._note_alarm(source)
        if self.is_parking:
            self._hold(channel, message, source, "alarm")
            return
        if is_first and message.body_bytes == 0:
            self._hand_over(channel, lane, message)
        else:
            self.stopped = message
        self.stopped_on = (source, "alarm")
        self.gate.close(source, "alarm")

    def stop_behind_alarm(self, channel: Channel) -> bool:
        """A method that no publish may be overtaken by has arrived: if an alarm holds a publish of
        `channel` read nothing more until it is over, and say True."""
        held = channel.held
        if not self.alarms or held is None or self._can_refuse(channel, held):
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
