"""Logging in with a token, its end, and the next one: by scripted peers, and without a signature,
which is verified in tests/unit/server/net and by pika in tests/conformance/test_oauth."""

from collections.abc import Callable

import pytest

from penstock.base.config import Config, UserConfig
from penstock.base.limits import EARLY_METHODS
from penstock.broker.session.tokens import TokenChecker, TokenFault, TokenRules, TokenUser
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import encode_method
from tests.unit.broker.peer import MS, Bed, Peer, start_ok

TOKEN = "eyJ0.eyJ0."
NS_PER_S = 1_000_000_000
RULES = TokenRules.of(Config(oauth_resource_server_id="rs"))
ALL = "rs.configure:*/* rs.write:*/*/* rs.read:*/*/*"


class Tokens(TokenChecker):
    """Answers when it is told to, by claims that the test has chosen: what is pure is the real."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.waiting: list[Callable[[TokenUser | TokenFault], None]] = []
        self.asked: list[str] = []
        bed.broker.host.tokens = self

    def check(self, token: str, done: Callable[[TokenUser | TokenFault], None]) -> None:
        self.asked.append(token)
        self.waiting.append(done)

    def answer(self, scope: str = ALL, seconds: int = 60, name: str = "bob") -> None:
        """The oldest."""
        now_s = self.bed.clock.wall_ns() // NS_PER_S
        claims = {"aud": "rs", "exp": now_s + seconds, "sub": name, "scope": scope}
        found: TokenUser | TokenFault
        try:
            found = RULES.user_of(claims, now_s)
        except TokenFault as fault:
            found = fault
        self.waiting.pop(0)(found)
        self.bed.run()


def shown(bed: Bed, capabilities: tuple[str, ...] = ("consumer_cancel_notify",)) -> Peer:
    """A peer that has shown its token and waits."""
    peer = Peer(bed, "peer", "10.0.0.9")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok(("authentication_failure_close", *capabilities), password=TOKEN))
    assert peer.heard() == []
    return peer


def enter(peer: Peer, vhost: str = "/") -> None:
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(2047, 131_072, 0))
    peer.say(0, m.ConnectionOpen(vhost))


def opened(bed: Bed, tokens: Tokens, scope: str = ALL, seconds: int = 60) -> Peer:
    peer = shown(bed)
    tokens.answer(scope, seconds)
    enter(peer)
    peer.one(m.ConnectionOpenOk)
    peer.say(1, m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    return peer


def test_a_token_is_the_user_that_it_names() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens)
    assert tokens.asked == [TOKEN]
    session = bed.broker.negotiators[peer.connection.name].session
    assert session is not None and session.user == "bob"
    peer.say(1, m.QueueDeclare("q"))
    peer.one(m.QueueDeclareOk)


def test_passwords_are_passwords_as_before() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    bed.connect("by password")
    assert tokens.asked == []


def test_a_token_that_is_not_accepted_is_a_wrong_password() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = shown(bed)
    tokens.answer(seconds=-1)
    assert peer.heard() == [] and bed.broker.guessing.failed_count == 1
    bed.later(1000 * MS)
    assert peer.one(m.ConnectionClose).reply_code == 403
    assert "user 'guest': the token is refused: it has expired 1 s ago" in bed.log.lines[0]
    assert TOKEN not in " ".join(bed.log.lines)


def test_a_user_who_is_for_this_machine_only_is_so_by_token_too() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = shown(bed)
    tokens.answer(name="guest")
    bed.later(1000 * MS)
    assert peer.one(m.ConnectionClose).reply_code == 403


def test_a_user_of_the_same_name_lends_no_rights() -> None:
    bed = Bed(users=(UserConfig("bob", "bob"),))
    tokens = Tokens(bed)
    peer = shown(bed)
    tokens.answer("rs.read:other/*")
    enter(peer)
    closed = peer.one(m.ConnectionClose)
    assert closed.reply_code == 530
    assert closed.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'bob'"


def test_what_a_client_says_meanwhile_waits() -> None:
    """Clients may send on without waiting for answers."""
    bed = Bed()
    tokens = Tokens(bed)
    peer = shown(bed)
    peer.say(0, m.ConnectionTuneOk(2047, 131_072, 0))
    peer.say(0, m.ConnectionOpen("/"))
    peer.say(1, m.ChannelOpen())
    peer.say(1, m.QueueDeclare("q"))
    assert peer.heard() == []
    tokens.answer()
    assert [type(one.method) for one in peer.heard()] == [
        m.ConnectionTune,
        m.ConnectionOpenOk,
        m.ChannelOpenOk,
        m.QueueDeclareOk,
    ]


def test_what_waits_is_bounded() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = shown(bed)
    for _ in range(EARLY_METHODS.default + 1):
        peer.say(0, m.ConnectionTuneOk(2047, 131_072, 0))
    assert peer.shell.is_closed
    tokens.answer()
    bed.settle()


@pytest.mark.parametrize("is_polite", [False, True])
def test_a_client_may_go_before_it_is_answered(is_polite: bool) -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = shown(bed)
    if is_polite:
        peer.say(0, m.ConnectionClose(200, "", 0, 0))
        peer.one(m.ConnectionCloseOk)
    else:
        peer.shell.hang_up()
    bed.run()
    tokens.answer()
    assert bed.broker.guessing.strangers == {} and bed.broker.guessing.failed_count == 0
    bed.settle()


def test_a_token_allows_what_its_scopes_say() -> None:
    bed = Bed()
    peer = opened(bed, Tokens(bed), "rs.configure:%2F/q* rs.write:*/amq.topic/a.* rs.read:*/q1")
    peer.say(1, m.QueueDeclare("q1"))
    peer.one(m.QueueDeclareOk)
    peer.say(1, m.BasicGet("q1"))
    peer.one(m.BasicGetEmpty)
    peer.publish("a.b", b"x", exchange="amq.topic")
    assert peer.heard() == []
    peer.publish("b.b", b"x", exchange="amq.topic")
    closed = peer.one(m.ChannelClose)
    assert closed.reply_code == 403
    text = "access to topic 'b.b' in exchange 'amq.topic' in vhost '/' refused for user 'bob'"
    assert closed.reply_text == f"ACCESS_REFUSED - {text}"
    peer.say(1, m.ChannelCloseOk())
    peer.say(1, m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    peer.publish("q1", b"x")
    closed = peer.one(m.ChannelClose)
    text = "access to exchange 'amq.default' in vhost '/' refused for user 'bob'"
    assert closed.reply_text == f"ACCESS_REFUSED - {text}"


def test_a_connection_ends_with_its_token() -> None:
    bed = Bed()
    peer = opened(bed, Tokens(bed), seconds=130)
    for _ in range(129):
        bed.later(NS_PER_S)
    assert peer.heard() == []
    bed.later(NS_PER_S)
    closed = peer.one(m.ConnectionClose)
    assert closed.reply_code == 320
    assert closed.reply_text == "CONNECTION_FORCED - credential expired"
    peer.say(0, m.ConnectionCloseOk())
    bed.settle()
    assert len(bed.broker.dues) == 0


def test_a_connection_that_ends_leaves_no_timer() -> None:
    bed = Bed()
    before = len(bed.broker.dues)
    peer = opened(bed, Tokens(bed))
    assert len(bed.broker.dues) == before + 1
    peer.shell.hang_up()
    bed.settle()
    assert len(bed.broker.dues) == before


def update(peer: Peer) -> None:
    peer.say(0, m.ConnectionUpdateSecret(TOKEN.encode(), "renewed"))


def test_the_next_token_is_in_force_once_it_was_checked() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens, "rs.write:*/* rs.configure:*/*", seconds=10)
    peer.say(1, m.QueueDeclare("q"))
    peer.one(m.QueueDeclareOk)
    peer.publish("q", b"x")
    update(peer)
    assert peer.heard() == []
    tokens.answer("rs.read:*/*", seconds=100)
    peer.one(m.ConnectionUpdateSecretOk)
    bed.later(50 * NS_PER_S)
    peer.say(1, m.BasicGet("q", True))
    peer.one(m.BasicGetOk)
    # The route was known already; the right is not there any more.
    peer.publish("q", b"x")
    assert peer.one(m.ChannelClose).reply_code == 403
    bed.later(51 * NS_PER_S)
    assert peer.one(m.ConnectionClose).reply_code == 320


def test_consumers_whose_queues_may_not_be_read_any_more_are_cancelled() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens)
    for name in ("a", "b"):
        peer.say(1, m.QueueDeclare(name))
        peer.one(m.QueueDeclareOk)
        peer.say(1, m.BasicConsume(name, f"of {name}"))
        peer.one(m.BasicConsumeOk)
    update(peer)
    tokens.answer("rs.read:*/b")
    heard = [one.method for one in peer.heard()]
    assert heard == [m.ConnectionUpdateSecretOk(), m.BasicCancel("of a", True)]
    assert not bed.actor("a").consumers and bed.actor("b").consumers


@pytest.mark.parametrize(
    ("scope", "seconds", "name", "text"),
    [
        (ALL, -1, "bob", "New secret was refused by one of the backends"),
        (ALL, 60, "eve", "New secret was refused by one of the backends"),
        ("rs.read:other/*", 60, "bob", "access to vhost '/' refused for user 'bob'"),
    ],
)
def test_a_next_token_that_is_refused_ends_the_connection(
    scope: str, seconds: int, name: str, text: str
) -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens)
    update(peer)
    tokens.answer(scope, seconds, name)
    closed = peer.one(m.ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (530, f"NOT_ALLOWED - {text}")


def test_one_next_token_at_a_time() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens)
    update(peer)
    update(peer)
    assert peer.one(m.ConnectionClose).reply_code == 530
    tokens.answer()
    bed.settle()


def test_the_next_token_comes_too_late_for_a_connection_that_is_gone() -> None:
    bed = Bed()
    tokens = Tokens(bed)
    peer = opened(bed, tokens)
    update(peer)
    peer.shell.hang_up()
    bed.run()
    tokens.answer()
    bed.settle()


def test_who_has_a_password_may_renew_it_to_no_effect() -> None:
    """As RabbitMQ's own users."""
    bed = Bed()
    Tokens(bed)
    peer = bed.connect("by password")
    update(peer)
    peer.one(m.ConnectionUpdateSecretOk)


def test_the_secret_is_in_no_text() -> None:
    method = m.ConnectionUpdateSecret(TOKEN.encode(), "renewed")
    assert TOKEN not in repr(method) and TOKEN.encode() in encode_method(method)
