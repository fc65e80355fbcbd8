"""What a client is told of its publishes being held, and nothing else decides that.

    connection.blocked / unblocked   for an alarm that holds a publish of this connection, and,
                                     where the operator wants it, for any other hold that lasts
                                     longer than notify_ns; strictly alternating
    channel.flow                     to clients that have opted in: for an alarm on every channel,
                                     for a hold that lasts longer than flow_stall_ns on its own

Telling enforces nothing: publishes are held and sockets are not read whether a client has heard or
not. A client that publishes after it has said flow-ok(false) is not read until it may publish, and
is closed when that lasts longer than limits.CHANNEL_FLOW_GRACE_MS (scenario 57).
Source: flow-semantics 3.4 and 11; scenarios 51-62, 70, 71 and 118.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import ConnectionFault, OperatorError
from penstock.base.limits import (
    CHANNEL_FLOW_GRACE_MS,
    CHANNEL_FLOW_REPLY_MS,
    CHANNEL_FLOW_STALL_MS,
)
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.notifier import Notifier
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.flow.channel_flow import (
    ALARM,
    HOLD,
    NOTES_SILENCE,
    SENDS_GO,
    SENDS_STOP,
    BlockedNotice,
    ClientFlow,
    FlowAction,
    FlowInput,
)
from penstock.flow.channel_flow import Told as FlowTold
from penstock.flow.gate import Gate
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from penstock.telemetry.words import called, duration, name_of

NOT_HOLDS = frozenset(("alarm", "socket", "flow"))
"""Alarms have a notice of their own; a full socket and a broken promise are the client's doing."""

NS_PER_MS = 1_000_000
REASON_BYTES_MAX = 255
"""A short string on the wire."""

FLOW_OFF = "off"
FLOW_CAPABILITY = "capability"
FLOW_KNOWN = "known"
FLOW_MODES = (FLOW_OFF, FLOW_CAPABILITY, FLOW_KNOWN)
FLOW_CAPABILITIES = frozenset(("channel.flow", "penstock.channel_flow"))
KNOWN_GOOD: Mapping[tuple[str, str], int] = {("RabbitMQ", "Java"): 3, ("RabbitMQ", ".NET"): 3}
"""Clients that wait in publish when told to and answer, by product and platform, from this major
version on (flow-semantics 11.3)."""

_WORDS: Mapping[str, str] = {
    "depth": "room in",
    "lag": "the progress of",
    "full": "room in",
    "credit": "credit of",
    "rate": "",
}


NO_FLOWS: dict[int, tuple[Channel, ClientFlow]] = {}
"""What all connections share whose clients get no channel.flow."""


QUIET = BlockedNotice()
"""The notice of all connections whose clients were never told connection.blocked."""


def wants_channel_flow(mode: str, capabilities: frozenset[str], properties: Table) -> bool:
    """Whether a client gets channel.flow from us. mode: one of FLOW_MODES; capabilities: those it
    has set to true; properties: its client-properties."""
    if mode == FLOW_OFF:
        return False
    if capabilities & FLOW_CAPABILITIES:
        return True
    if mode != FLOW_KNOWN:
        return False
    product, platform = properties.get("product"), properties.get("platform")
    if not isinstance(product, str) or not isinstance(platform, str):
        return False
    lowest = KNOWN_GOOD.get((product, platform))
    version = properties.get("version")
    if lowest is None or not isinstance(version, str):
        return False
    major = version.partition(".")[0][:9]
    # The Java client calls builds of its own making 0.0.0; they are newer than any release.
    return major.isascii() and major.isdigit() and (int(major) >= lowest or int(major) == 0)


class NotifierRules:
    """The rules all connections share. mode: one of FLOW_MODES; notify_ns:
    0 for never; flow_stall_ns: a channel's hold that its client is told of by channel.flow."""

    def __init__(self, mode: str, notify_ns: int) -> None:
        if mode not in FLOW_MODES:
            raise OperatorError(
                f"channel_flow = '{mode}' is unknown; one of: {', '.join(FLOW_MODES)}"
            )
        self.mode = mode
        self.notify_ns = notify_ns
        self.flow_stall_ns = CHANNEL_FLOW_STALL_MS.default * NS_PER_MS
        self.listeners = 0

    def is_watching(self) -> bool:
        """Whether any connection has to be looked at from time to time."""
        return self.notify_ns > 0 or self.listeners > 0

    def look(self, connections: Mapping[str, Connection], now_ns: int) -> list[str]:
        """Tell every client what has lasted too long by now; lines for the log."""
        lines: list[str] = []
        for connection in list(connections.values()):
            lines.extend(connection.notifier.look(now_ns))
        return lines


@dataclass(frozen=True, slots=True)
class Hold:
    """peer: the id of who holds; reason: the gate's word; since_ns: monotonic nanoseconds."""

    peer: str
    reason: str
    since_ns: int


def channel_hold(channel: Channel) -> Hold | None:
    """What has held publishes of `channel` longest, downstream of its connection."""
    found: Hold | None = None
    for lane in channel.parking.lines if channel.is_stalled else ():
        if lane.is_closed:
            held = _longest(lane.sender_gate)
            receiving = lane.receiving
            # A queue that takes no more keeps its grants back: credit is only how it is felt.
            reason = receiving.stop_reason()
            if held is not None and reason != "":
                held = Hold(held.peer, reason, held.since_ns)
            found = _older(found, held)
    upstream = channel.upstream
    if upstream is not None and upstream.is_closed:
        found = _older(found, _longest(channel.gate))
    return found


def connection_hold(connection: Connection) -> Hold | None:
    """What has held publishes of any channel, or of the whole connection, longest."""
    found: Hold | None = None
    for channel in connection.channels.values():
        found = _older(found, channel_hold(channel))
    if not connection.gate.is_open:
        found = _older(found, _longest(connection.gate))
    return found


def _longest(gate: Gate) -> Hold | None:
    found: Hold | None = None
    for peer, reason, since_ns in gate.snapshot():
        # A channel only hands on what holds it, and that is looked at where it is.
        if reason not in NOT_HOLDS and not peer.startswith("chan:"):
            found = _older(found, Hold(peer, reason, since_ns))
    return found


def _older(first: Hold | None, second: Hold | None) -> Hold | None:
    if first is None or (second is not None and second.since_ns < first.since_ns):
        return second
    return first


class ClientNotifier(Notifier):
    """One open connection's. `violation`: (peer, reason, since) while it is not read because it
    did not keep its word on the channel `violator`; is_silent: RabbitMQ since 2.0 sends no
    channel.flow, and no connection.blocked but for alarms."""

    __slots__ = (
        "connection",
        "flows",
        "has_flow",
        "is_logged",
        "is_silent",
        "knows_blocked",
        "notice",
        "rules",
        "violation",
        "violator",
    )

    def __init__(
        self,
        connection: Connection,
        rules: NotifierRules,
        capabilities: frozenset[str],
        properties: Table,
        is_emulating: bool,
    ) -> None:
        self.connection = connection
        self.rules = rules
        self.knows_blocked = "connection.blocked" in capabilities
        self.is_silent = is_emulating
        self.has_flow = not is_emulating and wants_channel_flow(
            rules.mode, capabilities, properties
        )
        self.flows: dict[int, tuple[Channel, ClientFlow]] = NO_FLOWS
        self.notice = QUIET
        self.violation: tuple[str, str, int] | None = None
        self.violator = 0
        self.is_logged = False
        if self.has_flow:
            rules.listeners += 1

    def ended(self) -> None:
        if self.has_flow:
            self.has_flow = False
            self.rules.listeners -= 1
        self.flows.clear()

    # -- connection.blocked ----------------------------------------------------------------------

    def blocked_by_alarm(self, reason: str) -> None:
        self._blocked(ALARM, reason)

    def unblocked_by_alarm(self) -> None:
        self._unblocked(ALARM)

    def _blocked(self, cause: str, reason: str) -> None:
        if self.notice is QUIET:
            self.notice = BlockedNotice()
        if self.notice.add(cause) and self.knows_blocked:
            self._send(0, m.ConnectionBlocked(_short(reason)))

    def _unblocked(self, cause: str) -> None:
        if self.notice.remove(cause) and self.knows_blocked:
            self._send(0, m.ConnectionUnblocked())

    def look(self, now_ns: int) -> list[str]:
        """From time to time: what has lasted too long; lines for the log. One connection costs its
        number of channels."""
        if self.connection.phase != PHASE_OPEN or self.is_silent:
            return []
        if self.rules.notify_ns > 0 or HOLD in self.notice.causes:
            self._look_at_hold(now_ns)
        return self._look_at_flows(now_ns) if self.has_flow else []

    def _look_at_hold(self, now_ns: int) -> None:
        hold = connection_hold(self.connection)
        limit_ns = self.rules.notify_ns
        if hold is None or limit_ns == 0 or now_ns - hold.since_ns < limit_ns:
            self._unblocked(HOLD)
            return
        if HOLD not in self.notice.causes:
            self._blocked(HOLD, hold_reason(hold, self.connection.name, now_ns))

    # -- channel.flow ----------------------------------------------------------------------------

    def alarms_changed(self) -> None:
        now_ns = self._now_ns()
        wish = FlowInput.STOP if self.connection.alarms else FlowInput.SEND
        for number, (channel, flow) in list(self.flows.items()):
            # What stands for its own hold is looked at when that is.
            if wish is FlowInput.STOP or not self._is_stalled(channel, flow, now_ns):
                self._take(number, flow, wish, now_ns)
        if wish is FlowInput.SEND:
            self._read_on()

    def channel_opened(self, channel: Channel) -> None:
        if not self.has_flow:
            return
        flow = ClientFlow()
        number = int(channel.number)
        if self.flows is NO_FLOWS:
            self.flows = {}
        self.flows[number] = (channel, flow)
        if self.connection.alarms:
            self._take(number, flow, FlowInput.STOP, self._now_ns())

    def flow_answered(self, channel: Channel) -> None:
        found = self._flow_of(channel)
        if found is not None:
            self._take(int(channel.number), found, FlowInput.REPLY, self._now_ns())

    def takes_as_reply(self, channel: Channel, is_active: bool) -> bool:
        flow = self._flow_of(channel)
        if flow is None or not flow.is_reply(is_active):
            return False
        self._take(int(channel.number), flow, FlowInput.REPLY, self._now_ns())
        return True

    def publish_held(self, channel: Channel) -> None:
        flow = self._flow_of(channel)
        if flow is None:
            return
        now_ns = self._now_ns()
        action = flow.take(FlowInput.PUBLISH, now_ns)
        if action is FlowAction.STOP_READING and self.violation is None:
            peer = self._holder(channel)
            self.violation = (peer, "flow", now_ns)
            self.violator = int(channel.number)
            self.connection.gate.close(peer, "flow")

    def _holder(self, channel: Channel) -> str:
        for source in self.connection.alarms:
            return source
        hold = channel_hold(channel)
        return channel.identity if hold is None else hold.peer

    def _flow_of(self, channel: Channel) -> ClientFlow | None:
        found = self.flows.get(int(channel.number))
        return found[1] if found is not None and found[0] is channel else None

    def _is_stalled(self, channel: Channel, flow: ClientFlow, now_ns: int) -> bool:
        """Whether the channel's own hold is worth a channel.flow, or is not over since one."""
        hold = channel_hold(channel)
        if hold is None:
            return False
        has_told = flow.told is not FlowTold.FREE and flow.told is not FlowTold.RESUMING
        return has_told or now_ns - hold.since_ns >= self.rules.flow_stall_ns

    def _look_at_flows(self, now_ns: int) -> list[str]:
        lines: list[str] = []
        reply_ns = CHANNEL_FLOW_REPLY_MS.default * NS_PER_MS
        for number, (channel, flow) in list(self.flows.items()):
            if self.connection.channels.get(number) is not channel:
                del self.flows[number]
                continue
            if not self.connection.alarms:
                is_stalled = self._is_stalled(channel, flow, now_ns)
                self._take(number, flow, FlowInput.STOP if is_stalled else FlowInput.SEND, now_ns)
            if flow.is_outstanding() and now_ns - flow.since_ns >= reply_ns:
                action = self._take(number, flow, FlowInput.OVERDUE, now_ns)
                if action in NOTES_SILENCE and not self.is_logged:
                    self.is_logged = True
                    lines.append(
                        f"{self.connection.name}: no channel.flow-ok on channel {number} for "
                        f"{duration(reply_ns)}; its publishes are held all the same (logged once)"
                    )
        self._look_at_violation(now_ns)
        return lines

    def _look_at_violation(self, now_ns: int) -> None:
        violation = self.violation
        if violation is None:
            return
        found = self.flows.get(self.violator)
        if found is None or found[1].told is FlowTold.FREE or found[1].told is FlowTold.RESUMING:
            self._read_on()
        elif now_ns - violation[2] >= CHANNEL_FLOW_GRACE_MS.default * NS_PER_MS:
            self._read_on()
            self.connection.fail(
                ConnectionFault(
                    503,
                    f"published on channel {self.violator} after channel.flow-ok(active=false)",
                    60,
                    40,
                )
            )

    def _read_on(self) -> None:
        violation = self.violation
        if violation is not None:
            self.violation = None
            self.connection.gate.open(violation[0], violation[1])

    def _take(self, number: int, flow: ClientFlow, given: FlowInput, now_ns: int) -> FlowAction:
        action = flow.take(given, now_ns)
        if action in SENDS_STOP:
            self._send(number, m.ChannelFlow(False))
        elif action in SENDS_GO:
            self._send(number, m.ChannelFlow(True))
            if number == self.violator:
                self._read_on()
        return action

    def _send(self, number: int, method: m.Method) -> None:
        output = self.connection.output
        output.writer.write(method_frame(number, method))
        output.mark()

    def _now_ns(self) -> int:
        return self.connection.line.clock.monotonic_ns()


def hold_reason(hold: Hold, name: str, now_ns: int) -> str:
    """The text of connection.blocked for a hold: by whom, why, and for how long already."""
    peer = called(hold.peer)
    if len(peer) > 100:
        peer = f"{peer[:99]}…"
    what = _WORDS.get(hold.reason, f"{hold.reason} of")
    if hold.reason == "debt":
        what, peer = "work outstanding in", f"account {name_of(hold.peer)[:100]}"
    age = duration(now_ns - hold.since_ns)
    held = f"{what} {peer}".lstrip()
    return f"held for {held} since {age}; see penstock why connection {name}"


def _short(text: str) -> str:
    """`text` as a short string can carry it."""
    data = text.encode()
    if len(data) <= REASON_BYTES_MAX:
        return text
    return data[: REASON_BYTES_MAX - 3].decode("utf-8", "ignore") + "…"
