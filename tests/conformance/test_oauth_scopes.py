"""What tokens allow, beside RabbitMQ 3.10.8: each with every operation.

Against RabbitMQ (PENSTOCK_CONFORMANCE_URL), enable rabbitmq_auth_backend_oauth2 and give it, in
advanced.config:
[{rabbit, [{auth_backends, [rabbit_auth_backend_oauth2, rabbit_auth_backend_internal]}]},
 {rabbitmq_auth_backend_oauth2, [{resource_server_id, <<"rs">>}, {extra_scopes_source, <<"roles">>},
  {key_config, [{default_key, <<"k">>}, {signing_keys, #{<<"k">> => {map, #{<<"kty">> => <<"MAC">>,
   <<"alg">> => <<"HS256">>, <<"value">> => <<"SECRET, as below">>}}}}]}]}].
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple

import jwt
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.conformance.conftest import URL_VARIABLE
from tests.conformance.live import Broker, from_url, penstock_process

SECRET: Final = "s" * 32
CONFIG: Final = f"""
login_delay_ms = 0
[oauth]
resource_server_id = "rs"
secret = "{SECRET}"
additional_scopes_key = "roles"
"""


def publish(exchange: str, key: str, user: str = "bob") -> Callable[[BlockingChannel], object]:
    def by(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"", pika.BasicProperties(user_id=user))

    return by


OPERATIONS: Final[dict[str, Callable[[BlockingChannel], object]]] = {
    "declare q/a": lambda channel: channel.queue_declare("q/a"),
    "declare b": lambda channel: channel.queue_declare("b"),
    "delete gone": lambda channel: channel.queue_delete("gone"),
    "declare x": lambda channel: channel.exchange_declare("x", "fanout"),
    "get q/a": lambda channel: channel.basic_get("q/a"),
    "get b": lambda channel: channel.basic_get("b"),
    "purge b": lambda channel: channel.queue_purge("b"),
    "to queue": publish("", "b"),
    "to direct": publish("amq.direct", "x"),
    "to a.b": publish("amq.topic", "a.b"),
    "to b/c": publish("amq.topic", "b/c"),
    "as eve": publish("", "b", "eve"),
    "bind a.b": lambda channel: channel.queue_bind("b", "amq.topic", "a.b"),
    "bind direct": lambda channel: channel.queue_bind("b", "amq.direct", "a.b"),
}
CONFIGURES: Final = {"declare q/a", "declare b", "delete gone", "declare x"}
READS: Final = {"get q/a", "get b", "purge b"}
B_READS: Final = {"get b", "purge b"}
WRITES: Final = {"to queue", "to direct"}
TOPICS: Final = {"to a.b", "to b/c", "bind a.b"}
BINDS: Final = {"bind direct"}


class Case(NamedTuple):
    """allowed: operations, all others are refused; claims: besides the usual."""

    scope: str
    allowed: set[str]
    claims: dict[str, object]


CASES: Final = {
    "all": Case(
        "configure:*/* write:*/*/* read:*/*/*", CONFIGURES | READS | WRITES | TOPICS | BINDS, {}
    ),
    "no topics": Case("configure:*/* write:*/* read:*/*", CONFIGURES | READS | WRITES | BINDS, {}),
    "no writing": Case("configure:*/* read:*/*/a*", CONFIGURES | READS, {}),
    "other vhost": Case("read:%2F/b read:other/*", B_READS, {}),
    "begin of names": Case("configure:%2F/q%2F* write:*/amq.*", {"declare q/a"} | WRITES, {}),
    "small digits": Case("configure:%2f/q%2fa read:*/b write:*/b", {"declare q/a"} | B_READS, {}),
    "one topic": Case(
        "write:*/amq.topic/a.* read:*/amq.topic/a.* write:*/b", {"to a.b", "bind a.b"}, {}
    ),
    "encoded topic": Case(
        "write:*/amq.topic/b%2Fc write:*/amq.default", {"to b/c", "to queue"}, {}
    ),
    "impersonator": Case("write:*/* tag:impersonator", {"as eve"} | WRITES, {}),
    "more as text": Case("write:*/*", B_READS | WRITES, {"roles": "rs.read:*/b"}),
    "more as list": Case("write:*/*", B_READS | WRITES, {"roles": ["rs.read:*/b"]}),
    "more as table": Case("write:*/*", B_READS | WRITES, {"roles": {"rs": ["read:*/b"]}}),
    "no pattern": Case("read:%/* read:*/b", B_READS, {}),
    "audiences": Case("read:*/*", READS, {"aud": ["x", "rs"]}),
    "audiences as text": Case("read:*/*", READS, {"aud": "x rs"}),
    "named by client_id": Case("read:*/*", READS, {"sub": None, "client_id": "bob"}),
}
STAYS_OUT: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "no prefix": ("", {"scope": "read:*/*"}),
    "no scope": ("", {}),
    "a tag alone": ("tag:administrator", {}),
    "other audience": ("read:*/*", {"aud": "x"}),
    "expired": ("read:*/*", {"exp": 1_700_000_000}),
}


def token(scope: str, claims: dict[str, object], secret: str = SECRET) -> str:
    said = {"aud": "rs", "exp": int(time.time()) + 600, "sub": "bob"}
    scopes = {"scope": [f"rs.{one}" for one in scope.split()]}
    return jwt.encode({**said, **scopes, **claims}, secret, "HS256", {"kid": "k"})


def connect(broker: Broker, user: str, password: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(broker.host, broker.port, credentials=credentials)
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that takes tokens, with what they try to reach."""
    with ExitStack() as stack:
        url = os.environ.get(URL_VARIABLE, "")
        folder = tmp_path_factory.mktemp("broker")
        process = penstock_process(folder, config=CONFIG)
        broker = from_url(url) if url else stack.enter_context(process)
        with connect(broker, broker.user, broker.password) as owner:
            channel = owner.channel()
            channel.queue_declare("q/a")
            channel.queue_declare("b")
        yield broker


@pytest.mark.parametrize("name", CASES)
def test_what_a_token_allows(guarded: Broker, name: str) -> None:
    case = CASES[name]
    allowed = set()
    with connect(guarded, "ignored", token(case.scope, case.claims)) as connection:
        for operation, call in OPERATIONS.items():
            try:
                call(connection.channel())
            except ChannelClosedByBroker as fault:
                is_other = operation == "as eve" and fault.reply_code == 406
                assert is_other or fault.reply_code == 403, fault
                assert is_other or fault.reply_text.endswith("refused for user 'bob'"), fault
            else:
                allowed.add(operation)
    assert allowed == case.allowed


@pytest.mark.parametrize("name", STAYS_OUT)
def test_what_opens_nothing(guarded: Broker, name: str) -> None:
    scope, claims = STAYS_OUT[name]
    with pytest.raises((ProbableAccessDeniedError, ProbableAuthenticationError)):
        connect(guarded, "ignored", token(scope, claims))


def test_another_secret_opens_nothing(guarded: Broker) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(guarded, "ignored", token("read:*/*", {}, "t" * 32))
