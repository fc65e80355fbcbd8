"""The cold side of a connection: greeting, authentication, tuning, opening, closing.

Decides with protocol/handshake what comes next; every answer goes through the output buffer.
Source: AMQP 0-9-1 section 2.2.4; RabbitMQ's rabbit_reader.
"""

from collections.abc import Callable
from functools import partial
from sys import intern

from penstock.base.errors import ChannelFault, ConnectionFault, PeerError
from penstock.base.limits import EARLY_METHODS, HANDOVER_BYTES
from penstock.broker.actors.lane import NOBODY_ASKS, Lane
from penstock.broker.actors.output import Shell
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.connection.broadcast_notifier import BroadcastNotifier
from penstock.broker.connection.client_notifier import (
    FLOW_CAPABILITIES,
    ClientNotifier,
)
from penstock.broker.connection.connection import Connection, ConnectionVerbs
from penstock.broker.connection.notifier import Notifier
from penstock.broker.connection.phases import (
    ENDS,
    ENTERED,
    GREETED,
    PHASE_CLOSING,
    PHASE_OPEN,
)
from penstock.broker.session.access import TlsPeer
from penstock.broker.session.handover import NOT_ELSEWHERE, Handover, encode, frames_of
from penstock.broker.session.piecewise import ends_with_commit
from penstock.broker.session.session import Session, SessionHost
from penstock.broker.session.teardown import Teardown
from penstock.broker.session.token_session import TokenSession
from penstock.broker.session.tokens import TokenFault, TokenUser, is_token
from penstock.broker.session.verbs import ChannelVerbs
from penstock.explain.naming import client_name
from penstock.flow.due import Timer
from penstock.flow.gate import NOBODY, Gate
from penstock.flow.hop import LAYER_CHANNEL, LAYER_CONNECTION
from penstock.protocol import methods as m
from penstock.protocol.constants import ACCESS_REFUSED, NOT_ALLOWED, PROTOCOL_HEADER
from penstock.protocol.content import EVENT_ACK, Event
from penstock.protocol.handshake import (
    GOES_ON,
    Handshake,
    HandshakeAction,
    HandshakeInput,
    HandshakeStage,
    HeaderVerdict,
    Tuning,
    client_capabilities,
    judge_header,
    negotiate,
    reference_of,
    start_method,
    tune_method,
    tuning_of,
)
from penstock.protocol.heartbeat import Heartbeat
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.protocol.replies import channel_close, connection_close
from penstock.protocol.sasl import EXTERNAL, MECHANISMS, Credentials, login_refused, parse
from penstock.protocol.values import Table, decode_table, encode_table
from penstock.telemetry.events import ACTOR_UP

CHANNEL_OPEN = 0x14000A
CHANNEL_CLOSE = 0x140028
CHANNEL_CLOSE_OK = 0x140029
BASIC_ACK = 0x3C0050
CAPABILITIES_ASKED = frozenset(
    ("authentication_failure_close", "connection.blocked", "consumer_cancel_notify", GOES_ON)
).union(FLOW_CAPABILITIES)


_CAPABILITIES: dict[frozenset[str], frozenset[str]] = {}
"""Each set of capabilities once. Bound: the subsets of CAPABILITIES_ASKED."""


def shared(capabilities: frozenset[str]) -> frozenset[str]:
    """The one set of all clients that ask for these, a subset of CAPABILITIES_ASKED."""
    return _CAPABILITIES.setdefault(capabilities, capabilities)


NO_SHELL = Shell()
NOBODY_TOLD = Notifier()
"""In the place of those of a connection that has ended."""
NOT_TUNED = Tuning(0, 0, 0)
TUNINGS_MAX = 256
_TUNINGS: dict[Tuning, Tuning] = {}
"""Each tuning once. Bound: TUNINGS_MAX, above which all are forgotten."""
AGREED = Handshake(HandshakeStage.OPEN)
"""Of all open connections: nothing leads on from there."""
NO_PROPERTIES: Table = {}
"""Of all clients that say nothing about themselves."""


def shared_tuning(tuning: Tuning) -> Tuning:
    """The one record of all clients that are tuned alike, as thousands are."""
    if len(_TUNINGS) >= TUNINGS_MAX:
        _TUNINGS.clear()
    return _TUNINGS.setdefault(tuning, tuning)


class Negotiator(ConnectionVerbs):
    """One connection's cold side. `peer_host`: the address it comes from, without port;
    `tls_peer`: what is known by its TLS, None without; `is_known`: it has logged in; `delay`: until
    it is told that it has not, None before that; `is_checking`: its password or token, and
    `deferred` is what it says meanwhile; `token`: with which it has logged in, None for a password;
    `login`: in the client's own words, where they may have to be said again, until it is open;
    `is_handed`: another process has taken it that far; `verbs`: set once the connection is open;
    `heartbeat`: once it is tuned; `since_ns`: when the peer connected, or when closing began: both
    have to come to an end (limits.HANDSHAKE_MS)."""

    __slots__ = (
        "capabilities",
        "client_properties",
        "close_reason",
        "credentials",
        "deferred",
        "delay",
        "handshake",
        "heartbeat",
        "host",
        "is_checking",
        "is_handed",
        "is_known",
        "login",
        "mechanism",
        "peer",
        "peer_host",
        "since_ns",
        "tls_peer",
        "token",
        "tuning",
        "verbs",
    )

    def __init__(
        self,
        host: SessionHost,
        peer_host: str,
        peer: str,
        now_ns: int,
        tls_peer: TlsPeer | None = None,
    ) -> None:
        self.host = host
        self.peer_host = intern(peer_host)
        self.peer = peer
        self.is_known = False
        self.is_handed = False
        self.is_checking = False
        self.deferred: list[Event] | None = None
        self.token: TokenSession | None = None
        host.guessing.arrived(peer_host)
        self.tls_peer = tls_peer
        self.handshake = Handshake()
        self.mechanism = ""
        self.login = b""
        self.credentials: Credentials | None = None
        self.client_properties: Table = NO_PROPERTIES
        self.capabilities: frozenset[str] = frozenset()
        self.tuning = NOT_TUNED
        self.heartbeat: Heartbeat | None = None
        self.verbs: ChannelVerbs | None = None
        self.close_reason = ""
        self.delay: Timer | None = None
        self.since_ns = now_ns

    @property
    def is_operator(self) -> bool:
        """Whether it came over the control socket."""
        return self.tls_peer is not None and self.tls_peer.is_operator

    @property
    def session(self) -> Session | None:
        """What the connection may work with, None until it is open."""
        return None if self.verbs is None else self.verbs.session

    @property
    def offered(self) -> tuple[str, ...]:
        """The ways to log in."""
        has_certificate = self.tls_peer is not None and self.tls_peer.user != ""
        return (*MECHANISMS, EXTERNAL) if has_certificate else MECHANISMS

    def shown(self) -> str:
        """Its address and what its client calls itself, as commands show them."""
        name = client_name(self.client_properties)
        return f"{self.peer} ({name})" if name else self.peer

    def fields(self) -> dict[str, object]:
        """The same for programs."""
        return {"connection": self.peer, "called": client_name(self.client_properties)}

    # -- greeting --------------------------------------------------------------------------------

    def greet(self, connection: Connection, header: bytes) -> None:
        verdict = judge_header(header)
        if verdict is not HeaderVerdict.ACCEPTED:
            self.close_reason = f"the first bytes are {verdict.value}"
            connection.output.writer.write(PROTOCOL_HEADER)
            connection.output.mark()
            connection.move(ENDS)
            connection.shell.close_after_output()
            return
        connection.move(GREETED)
        self.handshake.take(HandshakeInput.HEADER)
        self._send(connection, start_method(self.host.properties, self.offered))

    def control(self, connection: Connection, event: Event) -> None:
        method: m.Method
        if event.kind == EVENT_ACK:
            method = m.BasicAck(int(event.tag) & 0xFFFFFFFFFFFFFFFF, event.flag)
        else:
            method = decode_method(event.payload)
        if isinstance(method, m.ConnectionClose):
            connection.move(ENDS)
            connection.parser.discard_begun()
            self.since_ns = connection.line.clock.monotonic_ns()
            teardown = self._teardown(
                connection, lambda: self._say_last(connection, m.ConnectionCloseOk(), True)
            )
            teardown.finish_first(list(connection.channels.values()))
            self.host.cleanup.begin(teardown)
            return
        if connection.phase == PHASE_CLOSING or self.delay is not None:
            if isinstance(method, m.ConnectionCloseOk):
                connection.shell.close_after_output()
            return
        if self.is_checking:
            self._defer(event)
            return
        if connection.phase == PHASE_OPEN and isinstance(method, m.ConnectionUpdateSecret):
            answer = partial(self._send, connection, m.ConnectionUpdateSecretOk())
            if self.token is None:
                answer()
            else:
                self.token.update(method.new_secret, answer)
            return
        action = self.handshake.take_method(method)
        if action is HandshakeAction.AUTHENTICATE:
            self._authenticate(connection, method)
        elif action is HandshakeAction.NEGOTIATE:
            assert isinstance(method, m.ConnectionTuneOk), "the table says so"
            self._tuned(connection, method)
        elif action is HandshakeAction.ENTER_VHOST:
            assert isinstance(method, m.ConnectionOpen), "the table says so"
            if not self._goes_elsewhere(connection, method, event):
                self._enter(connection, method)

    def _authenticate(self, connection: Connection, method: m.Method) -> None:
        elsewhere = self.host.elsewhere
        self.login = b""
        if isinstance(method, m.ConnectionStartOk):
            if elsewhere is not None and elsewhere.keeps_logins():
                self.login = method_frame(0, method)
            # Thousands of clients send the same one.
            self.mechanism = intern(method.mechanism)
            response = method.response
            self.client_properties = method.client_properties or NO_PROPERTIES
            # What is asked for nowhere is not kept for every connection.
            self.capabilities = shared(
                CAPABILITIES_ASKED & client_capabilities(method.client_properties)
            )
        else:
            assert isinstance(method, m.ConnectionSecureOk), "the table says so"
            response = method.response
        certified = "" if self.tls_peer is None else self.tls_peer.user
        credentials = parse(self.mechanism, response, self.offered, certified)
        if credentials.is_certified and self.is_operator:
            self._admit(connection, credentials)
            return
        self.is_checking = True
        tokens = self.host.tokens
        if tokens is not None and not credentials.is_certified and is_token(credentials.password):
            judged = partial(self._judged_token, connection, credentials)
            tokens.check(credentials.password, judged)
        else:
            passed = partial(self._judged, connection, credentials)
            self.host.access.judge(credentials, self.peer_host, passed)

    def _judged_token(
        self, connection: Connection, claimed: Credentials, found: TokenUser | TokenFault
    ) -> None:
        """The token was checked."""
        if connection.phase >= PHASE_CLOSING:
            return
        if isinstance(found, TokenFault):
            refusal = f"user '{claimed.user}': the token is refused: {found}"
            self._judged(connection, Credentials(claimed.user, ""), refusal)
            return
        refusal = self.host.access.check_place(found.name, self.peer_host)
        if refusal == "":
            self.token = TokenSession(self.host, connection, found)
        # The token is kept until it is known which process the client is for.
        self._judged(connection, Credentials(found.name, claimed.password), refusal)

    def _judged(self, connection: Connection, credentials: Credentials, refusal: str) -> None:
        """It was checked, "" if it is right. What came meanwhile follows."""
        self.is_checking = False
        if refusal != "" or connection.phase >= PHASE_CLOSING:
            self.deferred = None
        if connection.phase >= PHASE_CLOSING:
            return
        if refusal != "":
            self._refuse(connection, credentials.user, refusal)
            return
        self._admit(connection, credentials)
        try:
            while self.deferred:
                connection.hear(self.deferred.pop(0))
        except PeerError as fault:
            connection.fail(fault)
        self.deferred = None

    def _defer(self, event: Event) -> None:
        """It waits until the login was answered. Raises: ConnectionFault 504 for too many."""
        if self.deferred is None:
            self.deferred = []
        if len(self.deferred) >= EARLY_METHODS.default:
            raise ConnectionFault(
                504, f"more than {EARLY_METHODS.default} methods before the login was answered"
            )
        self.deferred.append(event)

    def _admit(self, connection: Connection, credentials: Credentials) -> None:
        """It has logged in."""
        self.host.guessing.known(self.peer_host)
        self.is_known = True
        self.credentials = credentials
        self.handshake.take(HandshakeInput.ACCEPTED)
        config = self.host.context.config
        self._send(
            connection,
            tune_method(Tuning(config.channels_max, config.frame_bytes_max, config.heartbeat_s)),
        )

    def _refuse(self, connection: Connection, user: str, refusal: str) -> None:
        """Say so, but not at once."""
        context = self.host.context
        now_ns = context.clock.monotonic_ns()
        answer = self.host.guessing.failed(self.peer_host, user, now_ns)
        if answer.is_said:
            context.log.warning(f"{self.peer}: {refusal}")
            self.host.audit.note(user, self.peer, "login refused", "", {})
        self.close_reason = refusal
        fault = login_refused(self.mechanism)

        def say(_now_ns: int) -> None:
            if not connection.is_alive:
                return
            if "authentication_failure_close" in self.capabilities:
                self.close(connection, fault)
            else:
                connection.move(ENDS)
                connection.shell.close_after_output()

        self.delay = Timer(say)
        if answer.delay_ns == 0:
            say(now_ns)
        else:
            context.dues.put(self.delay, now_ns + answer.delay_ns)

    def _tuned(self, connection: Connection, method: m.ConnectionTuneOk) -> None:
        config = self.host.context.config
        agreed = negotiate(
            Tuning(config.channels_max, config.frame_bytes_max, config.heartbeat_s),
            tuning_of(method),
        )
        self._agreed(connection, agreed)

    def _agreed(self, connection: Connection, tuning: Tuning) -> None:
        self.tuning = shared_tuning(tuning)
        self.heartbeat = Heartbeat(tuning.heartbeat_s, connection.line.clock.monotonic_ns())
        connection.shell.tuned(tuning.heartbeat_s)

    def _enter(self, connection: Connection, method: m.ConnectionOpen) -> None:
        host = self.host
        credentials = self.credentials
        assert credentials is not None, "authentication comes before tuning"
        name, token = method.virtual_host, self.token
        try:
            if self.is_operator:
                vhost, rights = host.admit_operator(name, credentials.user)
            else:
                vhost = host.enter_vhost(name, credentials.user)
                rights = (
                    host.rights_in(name, credentials.user) if token is None else token.enter(name)
                )
        except ConnectionFault as fault:
            self._note_refusal(credentials.user, name, fault)
            raise
        is_emulating = host.context.profile.name.startswith("rabbitmq-")
        session = Session(connection, rights, vhost, host, self.capabilities, is_emulating)
        properties = self.client_properties
        if host.context.profile.broadcasts_flow:
            connection.notifier = BroadcastNotifier(connection)
        else:
            connection.notifier = ClientNotifier(
                connection, host.notifier_rules, self.capabilities, properties, is_emulating
            )
        self.credentials = None
        self.login = b""
        self.handshake = AGREED
        frame_max = self.tuning.frame_bytes_max or host.context.config.frame_bytes_max
        self.verbs = ChannelVerbs(session, PropertyRules(rights, frame_max))
        connection.parser.frame_bytes_max = frame_max
        connection.frame_bytes_max = frame_max
        connection.move(ENTERED)
        self._send(connection, m.ConnectionOpenOk())
        host.opened(connection)
        if token is not None:
            token.opened(self.verbs)

    # -- other processes -------------------------------------------------------------------------

    def _goes_elsewhere(
        self, connection: Connection, method: m.ConnectionOpen, event: Event
    ) -> bool:
        """Whether another process has the virtual host, so that the connection is handed over; it
        ends here without a word. event: `method` as it came. Raises: ConnectionFault 504, 506."""
        elsewhere = self.host.elsewhere
        if elsewhere is None or self.is_handed:
            return False
        worker = elsewhere.worker_of(method.virtual_host)
        if worker == NOT_ELSEWHERE:
            if self.tls_peer is not None and not self.is_operator:
                elsewhere.stays(self.peer_host)
            return False
        parser = connection.parser
        if parser.assemblies:
            raise ConnectionFault(504, "expected 'channel.open'", 60, 40)
        waiting = self.deferred or []
        record = encode(self._record(frames_of([event, *waiting]) + parser.unread()))
        if len(record) > HANDOVER_BYTES.default:
            raise ConnectionFault(
                506,
                f"{len(record)} bytes were sent before and with connection.open, more than the "
                f"{HANDOVER_BYTES.default} that are kept; wait for connection.open-ok",
            )
        waiting.clear()
        parser.forget()
        self.since_ns = connection.line.clock.monotonic_ns()
        connection.shell.hand_over(worker, record)
        return True

    def _record(self, said: bytes) -> Handover:
        """Raises: ConnectionFault 502."""
        credentials, tuning = self.credentials, self.tuning
        assert credentials is not None, "authentication comes before tuning"
        try:
            properties = encode_table(self.client_properties)
        except ValueError as fault:
            raise ConnectionFault(502, f"client-properties: {fault}") from fault
        return Handover(
            self.peer_host,
            # Unlike a port, a number behind it says nothing in another process.
            self.peer.partition("#")[0],
            self.tls_peer,
            self.mechanism,
            credentials.user,
            credentials.is_certified,
            "" if self.token is None else credentials.password,
            properties,
            tuple(self.capabilities),
            tuning.channel_max,
            tuning.frame_bytes_max,
            tuning.heartbeat_s,
            said,
            self.login,
        )

    def go_on(
        self, connection: Connection, record: Handover, found: TokenUser | TokenFault | None
    ) -> None:
        """Another process has agreed with the client on all that comes before connection.open.
        found: what the token of `record` says now, None without one."""
        self.host.guessing.known(self.peer_host)
        self.is_known = self.is_handed = True
        self.mechanism = intern(record.mechanism)
        self.credentials = Credentials(record.user, "", record.is_certified)
        self.capabilities = shared(CAPABILITIES_ASKED.intersection(record.capabilities))
        connection.move(GREETED)
        self.handshake.stage = HandshakeStage.TUNED
        self._agreed(
            connection, Tuning(record.channel_max, record.frame_bytes_max, record.heartbeat_s)
        )
        try:
            table, _ = decode_table(record.client_properties, 0, len(record.client_properties))
            self.client_properties = table or NO_PROPERTIES
            self._take_token(connection, record.user, found)
        except ConnectionFault as fault:
            connection.fail(fault)
            return
        connection.receive(record.said)

    def _take_token(
        self, connection: Connection, user: str, found: TokenUser | TokenFault | None
    ) -> None:
        """Raises: ConnectionFault 530."""
        if isinstance(found, TokenUser) and found.name != user:
            found = TokenFault(f"it is of user '{found.name}'")
        if isinstance(found, TokenFault):
            self.host.context.log.warning(
                f"{self.peer}: user '{user}': the token is refused: {found}"
            )
            raise ConnectionFault(NOT_ALLOWED, f"access refused for user '{user}'", 10, 40)
        if found is not None:
            self.token = TokenSession(self.host, connection, found)

    # -- channels --------------------------------------------------------------------------------

    def without_channel(self, connection: Connection, event: Event) -> None:
        if connection.phase != PHASE_OPEN:
            if self.is_checking:
                self._defer(event)
                return
            if connection.phase < PHASE_OPEN:
                raise ConnectionFault(
                    504, f"unexpected method in connection state {self.handshake.stage.value}"
                )
            return
        number = int(event.channel)
        # The tag of an ack is a delivery tag, which may have any value. Other tags are the bytes
        # of a class and a method with a sign, and a class may be above 0x7fff.
        identity = BASIC_ACK if event.kind == EVENT_ACK else int(event.tag) & 0xFFFFFFFF
        is_ours = connection.parser.is_discarding(number)
        if identity == CHANNEL_CLOSE_OK and is_ours:
            connection.parser.accept(number)
            return
        if identity == CHANNEL_CLOSE and is_ours:
            connection.output.writer.write(method_frame(number, m.ChannelCloseOk()))
            connection.output.mark()
            return
        if identity != CHANNEL_OPEN:
            if is_ours:
                return
            raise ConnectionFault(504, "expected 'channel.open'", identity >> 16, identity & 0xFFFF)
        if is_ours:
            raise ConnectionFault(504, "second 'channel.open' seen", 20, 10)
        self._open_channel(connection, number, reference_of(event.payload))

    def _open_channel(self, connection: Connection, number: int, reference: bytes) -> None:
        highest = self.tuning.channel_max or self.host.context.config.channels_max
        opened = len(connection.channels)
        if opened >= highest:
            # Channels are counted and their numbers are not looked at, as in RabbitMQ.
            wrong = f"number of channels opened ({opened}) has reached"
            raise ConnectionFault(530, f"{wrong} the negotiated channel_max ({highest})", 20, 10)
        session = self.session
        verbs = self.verbs
        assert session is not None and verbs is not None, "the connection is open"
        session.host.limits.check_channel(session.user)
        profile = self.host.context.profile
        line = connection.line
        identity = f"chan:{connection.name}/{number}"
        channel = Channel(
            identity,
            number,
            connection,
            connection.output,
            verbs,
            session.vhost,
            verbs.rules,
            connection.account,
            connection.strategy,
            connection.lot,
            profile.is_parking,
            int(connection.frame_bytes_max),
            profile.unsent_deliveries,
            profile.unsent_deliveries_max,
            line,
        )
        channel.publisher.reference = reference
        channel.cancel_notify = "consumer_cancel_notify" in session.capabilities
        gate = connection.gate
        if profile.is_parking:
            gate = Gate(connection.identity, line.clock, channel)
        lane = Lane(
            connection.identity,
            LAYER_CONNECTION,
            gate,
            channel,
            LAYER_CHANNEL,
            connection.account,
            NOBODY_ASKS,
        )
        connection.strategy.wire(lane)
        connection.add_channel(channel, lane)
        self.host.counts.channels_opened += 1
        session.host.limits.channel_opened(session.user)
        # A number may have been another channel's, and so may the peer's address.
        self.host.context.recorder.record(ACTOR_UP, identity, "", "", 0)
        connection.output.writer.write(method_frame(number, m.ChannelOpenOk()))
        connection.output.mark()
        connection.notifier.channel_opened(channel)

    def close_channel(self, connection: Connection, channel: Channel, fault: ChannelFault) -> None:
        if ends_with_commit(channel, fault):
            return
        number = int(channel.number)
        if fault.code == ACCESS_REFUSED and self.session is not None:
            self._note_refusal(self.session.user, self.session.vhost.name, fault)
        self.host.context.log.event(
            "channel.error",
            f"{self.shown()}: channel {number}: {fault.code} {fault.text}",
            self.fields() | {"channel": number, "code": fault.code, "reason": fault.text},
        )
        if self.verbs is not None:
            self.verbs.release(channel)
        connection.remove_channel(channel)
        connection.parser.discard(number)
        connection.output.writer.write(method_frame(number, channel_close(fault)))
        connection.output.mark()

    def _note_refusal(self, user: str, vhost: str, fault: PeerError) -> None:
        host = self.host
        now_ns = host.context.clock.monotonic_ns()
        host.refusals.note(host.audit, user, self.peer, vhost, fault, now_ns)

    # -- closing ---------------------------------------------------------------------------------

    def close(self, connection: Connection, fault: PeerError) -> None:
        self.close_reason = f"{fault.code} {fault.text}"
        if self.delay is None:
            # A refused login has its line already.
            self.host.context.log.event(
                "connection.error",
                f"{self.shown()}: closing: {self.close_reason}",
                self.fields() | {"code": fault.code, "reason": fault.text},
            )
        is_cut = connection.phase < PHASE_OPEN and fault.code != 403
        connection.move(ENDS)
        self.since_ns = connection.line.clock.monotonic_ns()
        last = connection_close(fault)
        self.host.cleanup.begin(
            self._teardown(connection, lambda: self._say_last(connection, last, is_cut))
        )

    def alarm_reason(self) -> str:
        return self.host.alarm_reason()

    def report(self, error: BaseException, where: str) -> None:
        text = f"internal error in {where}; the connection is closed"
        self.host.context.log.error(text, error)

    def ended(self, connection: Connection) -> None:
        if not self.is_known:
            self.host.guessing.known(self.peer_host)
        if self.delay is not None:
            self.host.context.dues.take_off(self.delay)
        if self.token is not None:
            self.token.ended()
        connection.notifier.ended()
        session = self.session
        if session is not None:
            session.vhost.remove_owned(connection.identity)
        self.host.closed(connection)
        self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        """Nothing that hangs on the connection leads back to it any more: it is freed when the last
        one has forgotten it, without the collector, which would look at all there is."""
        connection.gate.observer = NOBODY
        if connection.ledger is not None:
            connection.ledger.parked = None
        connection.notifier = NOBODY_TOLD
        connection.shell = NO_SHELL
        del connection.answering.connection
        self.verbs = None
        self.token = None
        self.delay = None

    def release(self, connection: Connection) -> None:
        """The socket is gone: consumers first, then everything else."""
        vhost = None if self.session is None else self.session.vhost
        self.host.cleanup.begin(Teardown(connection, self.verbs, vhost, connection.finish))

    def _teardown(self, connection: Connection, done: Callable[[], None]) -> Teardown:
        return Teardown(connection, self.verbs, None, done)

    def _say_last(self, connection: Connection, method: m.Method, is_cut: bool) -> None:
        if connection.is_alive:
            self._send(connection, method)
            if is_cut:
                connection.shell.close_after_output()

    def _send(self, connection: Connection, method: m.Method) -> None:
        connection.output.writer.write(method_frame(0, method))
        connection.output.mark()
