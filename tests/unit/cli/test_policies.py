"""`penstock policies` and `penstock limits` against a running broker, as a client feels them."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from click import Command
from click.testing import CliRunner
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from penstock.base.errors import OperatorError
from penstock.cli.limits import limits
from penstock.cli.policies import policies
from penstock.cli.queues import queues
from tests.patience import until
from tests.unit.cli.broker_process import BrokerProcess

CONFIG = """
vhosts = ["/", "narrow"]
[[policies]]
name = "configured"
pattern = "^configured$"
definition = { max-length = 1 }
[[vhost_limits]]
vhost = "narrow"
max-queues = 1
"""

Says = Callable[..., str]


@pytest.fixture
def says(broker: BrokerProcess) -> Says:
    """A command's output; what an operator does wrong is raised."""

    def run(command: Command, *words: str) -> str:
        verb = words[:1] if not words[0].startswith("-") else ()
        rest = (*verb, "--control", broker.control, *words[len(verb) :])
        done = CliRunner().invoke(command, rest)
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return run


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = broker.connect()
    yield connection.channel()
    connection.close()


def count(channel: BlockingChannel, queue: str) -> int:
    found: int = channel.queue_declare(queue, passive=True).method.message_count
    return found


def rows(text: str, key: str) -> list[dict[str, object]]:
    found = msgspec.json.decode(text, type=dict[str, object])[key]
    return msgspec.convert(found, list[dict[str, object]])


def test_a_backlog_is_cut_at_once_and_grows_again(says: Says, channel: BlockingChannel) -> None:
    channel.queue_declare("backlog")
    for _ in range(10):
        channel.basic_publish("", "backlog", b"x")
    assert count(channel, "backlog") == 10
    said = says(policies, "set", "cut", "^backlog$", '{"max-length": 3}', "--priority", "5")
    assert said == "policy 'cut' is set; 1 queue or exchange goes by other rules now\n"
    assert count(channel, "backlog") == 3
    # Neither a passive nor an equal declaration looks at policies.
    channel.queue_declare("backlog")
    said = says(policies, "clear", "cut")
    assert said == "policy 'cut' is cleared; 1 queue or exchange goes by other rules now\n"
    for _ in range(10):
        channel.basic_publish("", "backlog", b"x")
    assert count(channel, "backlog") == 13


def test_backpressure_by_policy_loses_nothing(
    says: Says, broker: BrokerProcess, channel: BlockingChannel
) -> None:
    channel.queue_declare("pressed")
    says(policies, "set", "press", "^pressed$", '{"max-length": 5, "overflow": "backpressure"}')
    publisher = broker.connect()
    for number in range(20):
        publisher.channel().basic_publish("", "pressed", str(number).encode())
    publisher.process_data_events(0)
    until(lambda: count(channel, "pressed") == 5, "as many as the queue takes")
    taken: list[bytes] = []
    while len(taken) < 20:
        method, _, body = channel.basic_get("pressed", auto_ack=True)
        if method is None:
            channel.connection.sleep(0.01)
        else:
            assert body is not None
            taken.append(body)
    assert sorted(taken, key=int) == [str(number).encode() for number in range(20)]
    publisher.close()
    says(policies, "clear", "press")


def test_listings(says: Says, channel: BlockingChannel) -> None:
    says(policies, "set", "cap", "", '{"max-length": 7}', "--operator", "--apply-to", "queues")
    channel.queue_declare("configured")
    text = says(policies, "list")
    assert "configured" in text and "^configured$" in text and "OPERATOR POLICIES" in text
    listed = says(policies, "list", "--format", "json")
    assert [one["name"] for one in rows(listed, "policies")] == ["configured"]
    assert [one["apply-to"] for one in rows(listed, "operator_policies")] == ["queues"]
    assert "configured" not in says(policies, "list", "--operator")
    assert rows(says(policies, "export"), "parameters")[0]["component"] == "operator_policy"
    found = {one["name"]: one for one in rows(says(queues, "--format", "json"), "queues")}
    row = found["/configured"]
    assert (row["policy"], row["operator_policy"]) == ("configured", "cap")
    assert row["effective_policy_definition"] == {"max-length": 1}
    assert "configured, cap" in says(queues, "--sort", "name")
    says(policies, "clear", "cap", "--operator")


def test_what_is_wrong_is_said(says: Says) -> None:
    for words, complaint in (
        (("set", "p", "^(?=a)", '{"expires": 1}'), "RE2 has no look-ahead"),
        (("set", "p", "a", '{"expires": 0}'), "0 is not a valid queue expiry"),
        (("set", "p", "a", "expires"), "the definition is not JSON"),
        (("set", "p", "a", '{"expires": 1}', "--vhost", "x"), "no vhost 'x'"),
        (("clear", "p"), "no policy 'p'"),
    ):
        with pytest.raises(OperatorError, match=complaint):
            says(policies, *words)


def test_limits_of_a_vhost(says: Says, broker: BrokerProcess) -> None:
    connection = broker.connect("narrow")
    connection.channel().queue_declare("one")
    with pytest.raises(ChannelClosedByBroker, match="queue limit in vhost 'narrow' \\(1\\)"):
        connection.channel().queue_declare("two")
    assert says(limits, "set", "vhost", "narrow", "max-queues=2", "max-connections=1") == (
        "vhost 'narrow': max-queues 2, max-connections 1\n"
    )
    connection.channel().queue_declare("two")
    with pytest.raises(AMQPConnectionError):
        broker.connect("narrow")
    text = says(limits, "list")
    assert "narrow" in text and "max-connections" in text
    listed = rows(says(limits, "list", "--format", "json"), "limits")
    assert listed[0]["used"] == {"max-connections": 1, "max-queues": 2}
    assert says(limits, "clear", "vhost", "narrow", "max-connections") == (
        "vhost 'narrow': max-queues 2\n"
    )
    connection.close()


def test_limits_of_a_user(says: Says, broker: BrokerProcess) -> None:
    connection = broker.connect()
    connection.channel()
    says(limits, "set", "user", "guest", '{"max-channels": 1}')
    with pytest.raises(AMQPConnectionError, match=r"maximum allowed user limit of \(1\)"):
        connection.channel()
    assert says(limits, "clear", "user", "guest") == "user 'guest': no limits\n"
    for words, complaint in (
        (("set", "user", "guest", "max-channels"), "is no limit; write it as max-connections=100"),
        (("set", "user", "guest", "{"), "the limits are not JSON"),
        (("set", "user", "nobody", "max-channels=1"), "no user 'nobody'"),
    ):
        with pytest.raises(OperatorError, match=complaint):
            says(limits, *words)
