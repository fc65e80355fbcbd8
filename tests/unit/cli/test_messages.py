"""cli/messages: a move goes on until what was there is moved, however little one request does."""

from threading import Thread
from time import monotonic

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli import messages, topology_ways
from penstock.cli.amqp_way import over_amqp
from penstock.cli.asking import RunningBroker
from penstock.client import moving
from penstock.client.io_blocking import connect
from penstock.testing import Broker
from tests.patience import until

Answer = dict[str, object]


class Scripted:
    """A broker that moves as many messages as it is told to. counts: that it was asked for."""

    def __init__(self, *answers: tuple[int, int, int]) -> None:
        self.answers: list[Answer] = [
            {"moved": one[0], "left": one[1], "found": one[2]} for one in answers
        ]
        self.counts: list[object] = []

    def do(self, _broker: RunningBroker, request: Answer) -> Answer:
        self.counts.append(request["count"])
        return self.answers.pop(0)


def moved(monkeypatch: pytest.MonkeyPatch, broker: Scripted, *words: str) -> str:
    def do(self: RunningBroker, request: Answer) -> Answer:
        return broker.do(self, request)

    monkeypatch.setattr(RunningBroker, "do", do)
    monkeypatch.setattr(messages, "place_of", lambda _broker, name, _vhost: ("/", name))
    result = CliRunner().invoke(
        messages.move, ["from", "-x", "round", "--control", "/nowhere", *words]
    )
    assert result.exit_code == 0, result.output
    assert broker.answers == []
    return result.output


def test_it_goes_on_from_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Scripted((300, 700, 1000), (300, 400, 700), (400, 0, 400))
    assert moved(monkeypatch, broker).startswith("1 000 messages of queue 'from'")
    assert broker.counts == [10_000, 700, 400]


def test_what_comes_back_is_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange that leads back to the queue: there are always as many."""
    broker = Scripted((300, 1000, 1000), (300, 1000, 1000), (400, 1000, 1000))
    moved(monkeypatch, broker)
    assert broker.counts == [10_000, 700, 400]


def test_no_more_than_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Scripted((200, 800, 1000), (50, 750, 800))
    moved(monkeypatch, broker, "-n", "250")
    assert broker.counts == [250, 50]


def test_it_ends_where_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another consumer was faster."""
    broker = Scripted((200, 800, 1000), (0, 0, 0))
    moved(monkeypatch, broker)
    assert broker.counts == [10_000, 800]


def test_a_publish_under_an_alarm_is_refused_in_words_and_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the broker reads nothing meanwhile, it was a traceback half a minute later."""
    monkeypatch.setattr(topology_ways, "CONFIRM_MS", 1000)
    with Broker(profile="rabbitmq-4") as broker:
        over_amqp(broker.control, asked("queues", "declare", type="", durable=True))
        broker.raise_alarm("memory")
        began = monotonic()
        with pytest.raises(OperatorError, match="has not confirmed the message within 1 s"):
            over_amqp(broker.control, asked("exchanges", "publish", payload="b25l"))
        assert monotonic() - began < 20.0


def asked(op: str, do: str, **more: object) -> Answer:
    """A request about the queue `q`, as the command makes it."""
    at = {"vhost": "/", "name": "q", "exchange": "", "routing_key": "q"}
    tables = {"arguments": {}, "properties": {}, "auto_delete": False}
    return {"op": op, "do": do, **at, **tables, **more}


def test_a_move_under_an_alarm_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for as long as the alarm was set, where a piece is more than the sockets take."""
    monkeypatch.setattr(moving, "CONFIRM_MS", 1000)
    with Broker(profile="rabbitmq-4") as broker:
        with connect(broker.url) as connection:
            channel = connection.channel()
            for queue in ("q", "to"):
                channel.declare_queue(queue)
            channel.confirm_select()
            for _ in range(20):
                channel.publish("", "q", b"x" * 200_000)
            channel.wait_for_confirms()
        broker.raise_alarm("memory")
        found: list[str] = []

        def move() -> None:
            with pytest.raises(OperatorError) as caught:
                over_amqp(broker.control, asked("queues", "move", routing_key="to", count=20))
            found.append(str(caught.value))

        Thread(target=move, daemon=True).start()
        until(lambda: found, "it has ended")
        assert "'to' has not confirmed within 1 s" in found[0]
        until(lambda: broker.queues()["q"].messages_ready == 20, "nothing has left")
