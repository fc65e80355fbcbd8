"""Unmodified clients that log in with tokens: what these allow, until when, and the next one."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aio_pika
import jwt
import pika
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.conformance.live import Broker, penstock_process
from tests.patience import PATIENCE_S

RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
SECRET = "a secret of the issuer and the broker"
KEYS: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | str] = {
    "RS256": RSA,
    "ES256": CURVE,
    "HS256": SECRET,
}
ALL = "rs.configure:*/* rs.write:*/*/* rs.read:*/*/*"
SETTINGS = f"""
login_delay_ms = 0
[oauth]
resource_server_id = "rs"
jwks_file = "KEYS"
secret = "{SECRET}"
issuer = "https://issuer.example"
additional_scopes_key = "roles"
scope_aliases = {{ reader = "rs.read:*/*" }}
"""


def token(scope: str = ALL, seconds: float = 600, kind: str = "RS256", **claims: object) -> str:
    said: dict[str, object] = {"iss": "https://issuer.example", "aud": ["rs"], "sub": "bob"}
    said |= {"scope": scope, "exp": time.time() + seconds, **claims}
    headers = {} if kind == "HS256" else {"kid": kind}
    return jwt.encode(said, KEYS[kind], kind, headers)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    shown = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "RS256"},
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key())), "kid": "ES256"},
    ]
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": shown}))
    with penstock_process(folder, config=SETTINGS.replace("KEYS", str(path))) as broker:
        yield broker


def connect(broker: Broker, password: str, user: str = "ignored") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(broker.host, broker.port, credentials=credentials)
    )


def until(holds: Callable[[], bool], connection: pika.BlockingConnection) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        connection.process_data_events(0.05)


@pytest.mark.parametrize("kind", ["RS256", "ES256", "HS256"])
def test_a_client_works_by_token(broker: Broker, kind: str) -> None:
    with connect(broker, token(kind=kind)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.topic", "a.#")
        channel.basic_publish("amq.topic", "a.b", b"body", pika.BasicProperties(user_id="bob"))
        assert channel.basic_get(queue, auto_ack=True)[2] == b"body"


async def test_aio_pika(broker: Broker) -> None:
    url = f"amqp://x:{token()}@{broker.host}:{broker.port}/"
    async with await aio_pika.connect(url, timeout=PATIENCE_S) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"body"), queue.name)
        message = await queue.get(timeout=PATIENCE_S, no_ack=True)
        assert message.body == b"body"


def test_passwords_are_as_good_as_before(broker: Broker) -> None:
    with connect(broker, "guest", "guest") as connection:
        connection.channel().queue_declare("", exclusive=True)


@pytest.mark.parametrize(
    "password",
    [
        token(seconds=-1),
        token(aud="other"),
        token(iss="https://elsewhere.example"),
        token()[:-4] + "AAAA",
        token().rpartition(".")[0] + ".",
        jwt.encode({"aud": "rs", "sub": "bob", "scope": ALL}, SECRET),
        "eyJ0.eyJ0.x",
    ],
)
def test_what_is_refused(broker: Broker, password: str) -> None:
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        connect(broker, password)


def test_a_virtual_host_that_the_token_does_not_name(broker: Broker) -> None:
    text = "access to vhost '/' refused for user 'bob'"
    with pytest.raises((ConnectionClosedByBroker, ProbableAccessDeniedError), match=text):
        connect(broker, token("rs.read:other/*"))


def refused(channel: pika.adapters.blocking_connection.BlockingChannel) -> Callable[..., str]:
    def by(call: Callable[..., object], *words: object) -> str:
        with pytest.raises(ChannelClosedByBroker) as fault:
            call(*words)
        assert fault.value.reply_code == 403
        return str(fault.value.reply_text)

    return by


def test_a_token_allows_what_its_scopes_say(broker: Broker) -> None:
    with connect(broker, "guest", "guest") as owner:
        own = owner.channel()
        own.queue_declare("orders-1")
        own.queue_declare("secrets")
        scope = "rs.read:%2F/orders-* rs.write:%2F/amq.topic/eu.*"
        with connect(broker, token(scope, roles=["reader", "unknown"])) as connection:
            channel = connection.channel()
            assert channel.basic_get("orders-1") == (None, None, None)
            # By the alias in another claim.
            assert channel.basic_get("secrets") == (None, None, None)
            text = refused(channel)(channel.queue_declare, "orders-2")
            assert text == (
                "ACCESS_REFUSED - access to queue 'orders-2' in vhost '/' refused for user 'bob'"
            )
        with connect(broker, token(scope)) as connection:
            channel = connection.channel()
            assert "'secrets'" in refused(channel)(channel.basic_get, "secrets")
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("amq.topic", "eu.one", b"")
            text = refused(channel)(channel.basic_publish, "amq.topic", "us.one", b"")
            assert "access to topic 'us.one' in exchange 'amq.topic'" in text
        own.queue_delete("orders-1")
        own.queue_delete("secrets")


def test_the_connection_ends_with_its_token(broker: Broker) -> None:
    began = time.time()
    connection = connect(broker, token(seconds=3, exp=int(began) + 3))
    with pytest.raises(ConnectionClosedByBroker) as fault:
        until(lambda: False, connection)
    assert (fault.value.reply_code, fault.value.reply_text) == (
        320,
        "CONNECTION_FORCED - credential expired",
    )
    assert time.time() >= int(began) + 3


def test_the_next_token_keeps_it_open(broker: Broker) -> None:
    end = int(time.time()) + 3
    with connect(broker, token(exp=end)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept")
        cancelled: list[object] = []
        channel.add_on_cancel_callback(cancelled.append)
        channel.basic_consume("kept", lambda *_: None, auto_ack=True)
        # Its scopes are others: nothing may be read, and the consumer is cancelled.
        connection.update_secret(token("rs.configure:*/* rs.write:*/*"), "renewed")
        until(lambda: bool(cancelled), connection)
        until(lambda: time.time() > end + 1, connection)
        channel.basic_publish("", "kept", b"still here")
        text = refused(channel)(channel.basic_get, "kept")
        assert "access to queue 'kept'" in text
        connection.channel().queue_delete("kept")


def test_a_next_token_that_is_refused_closes_the_connection(broker: Broker) -> None:
    connection = connect(broker, token())
    with pytest.raises(ConnectionClosedByBroker) as fault:
        connection.update_secret(token(sub="eve"), "renewed")
    assert (fault.value.reply_code, fault.value.reply_text) == (
        530,
        "NOT_ALLOWED - New secret was refused by one of the backends",
    )


def test_a_wrong_configuration_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="oauth_jwks_file: /nowhere cannot be read"),
        penstock_process(tmp_path, config=SETTINGS.replace("KEYS", "/nowhere")),
    ):
        pass
