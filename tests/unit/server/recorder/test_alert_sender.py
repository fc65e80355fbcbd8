"""Alerts reach a real HTTP server and a real command; what fails is a line in the log."""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.alarm.alerts import Alert
from penstock.protocol import methods as m
from penstock.server.boot.node import Node
from penstock.server.recorder import service
from penstock.server.recorder.alert_sender import AlertTargets, send_alert
from penstock.server.recorder.service import without_secrets
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, book_of, running, until


class Receiver:
    """A server on a port of its own. got: path, type and body of every request; status: its answer;
    gate: cleared, it answers nothing."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, bytes]] = []
        self.status = 204
        self.gate = Event()
        self.gate.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, self.headers["Content-Type"], body))
                receiver.gate.wait(PATIENCE_S)
                self.send_response(receiver.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing to the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/s3cr3t"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def alerts(self) -> list[dict[str, object]]:
        """The bodies as they were meant."""
        return [json.loads(body) for _, _, body in self.got]

    def close(self) -> None:
        self.gate.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(autouse=True)
def _in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is over at once, however slowly the machine runs."""
    monkeypatch.setattr(service, "SLICE_NS", 1 << 60)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


async def publisher(node: Node) -> Wire:
    """A client that has put something into a queue."""
    wire = await Wire.opened(node)
    wire.say(1, m.QueueDeclare("events"))
    await wire.expect(m.QueueDeclareOk)
    wire.writer.write(publish(1, "", "events", b"x" * 5000))
    await until(lambda: node.broker.vhosts["/"].queues["events"].messages.ready_count() == 1)
    return wire


def ring(node: Node, times: int = 1) -> None:
    """A memory alarm begins and ends."""
    for _ in range(times):
        node.broker.settings.write("memory.high", "0")
        node.tick()
        node.broker.settings.write("memory.high", "95%")
        node.tick()


async def test_a_webhook_gets_the_alarm_with_the_why_memory_of_that_moment(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with running(tmp_path, alert_webhook=receiver.url) as node:
        wire = await publisher(node)
        ring(node)
        await until(lambda: receiver.got)
        path, kind, _ = receiver.got[0]
        assert (path, kind) == ("/hooks/s3cr3t", "application/json")
        alert = receiver.alerts()[0]
        assert alert["alert"] == "memory alarm" and alert["withheld"] == 0
        assert str(alert["text"]).startswith("memory alarm: the mark is 0")
        why = alert["why_memory"]
        assert isinstance(why, dict) and why["is_held"] is True
        assert [one["name"] for one in why["queues"]] == ["queue:/events"]
        assert "the alarm is set" in str(alert["why_memory_text"])
        assert alert["boot_id"] == node.boot_id
        await wire.close()


async def test_many_alarms_are_one_alert_and_a_number(tmp_path: Path, receiver: Receiver) -> None:
    async with running(tmp_path, alert_webhook=receiver.url) as node:
        await until(lambda: node.flight.rounds > 0)
        ring(node, 5)
        await until(lambda: receiver.got)
        sender = node.flight.alerts
        assert sender.sent == 1 and sender.pacer.withheld == 4
        sender.pacer.pause_ns = 0
        await until(lambda: sender._future is None or sender._future.done())
        ring(node)
        await until(lambda: len(receiver.got) == 2)
        assert [one["withheld"] for one in receiver.alerts()] == [0, 4]


async def test_a_receiver_that_hangs_holds_nothing_up(tmp_path: Path, receiver: Receiver) -> None:
    receiver.gate.clear()
    async with running(tmp_path, alert_webhook=receiver.url, alert_pause_ms=0) as node:
        wire = await publisher(node)
        ring(node)
        await until(lambda: receiver.got)
        ring(node, 3)
        assert node.flight.alerts.sent == 1 and node.flight.alerts.pacer.withheld == 3
        wire.say(1, m.QueueDeclare("another"))
        await wire.expect(m.QueueDeclareOk)
        receiver.gate.set()
        await wire.close()


@pytest.mark.parametrize(("status", "said"), [(500, "answered 500"), (302, "answered 302")])
async def test_what_fails_is_said_without_the_address(
    tmp_path: Path, receiver: Receiver, status: int, said: str
) -> None:
    receiver.status = status
    async with running(tmp_path, alert_webhook=receiver.url) as node:
        ring(node)
        await until(lambda: any(said in line for line in book_of(node).lines))
        assert not any("s3cr3t" in line for line in book_of(node).lines)
    assert len(receiver.got) == 1, "it is not led elsewhere"


async def test_a_command_gets_the_same_as_its_input(tmp_path: Path) -> None:
    program = tmp_path / "alert me.py"
    program.write_text(
        "import os, sys, pathlib\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "out.with_suffix('.part').write_text(\n"
        "    os.environ['PENSTOCK_ALERT'] + chr(10) + sys.stdin.read())\n"
        "out.with_suffix('.part').rename(out)\n",
        encoding="ascii",
    )
    out = tmp_path / "got"
    command = f"{sys.executable} '{program}' {out}"
    async with running(tmp_path, alert_command=command) as node:
        wire = await publisher(node)
        ring(node)
        await until(out.exists)
        title, _, body = out.read_text(encoding="utf-8").partition("\n")
        alert = json.loads(body)
        assert title == alert["alert"] == "memory alarm"
        assert alert["why_memory"]["queues"][0]["name"] == "queue:/events"
        await wire.close()


def targets(**settings: object) -> AlertTargets:
    return AlertTargets.of(Config(**settings))  # type: ignore[arg-type]  # tests name fields


def sent(one: AlertTargets) -> list[str]:
    alert = Alert("memory alarm", "text", 0)
    return send_alert(one, alert.title, alert.text, b"{}")


def test_commands_that_fail_hang_or_are_not_there() -> None:
    python = sys.executable
    failing = f"{python} -c 'import sys; sys.exit(\"no pager\")'"
    assert sent(targets(alert_command=failing)) == [f"{python} ended with 1: no pager"]
    hanging = f"{python} -c 'import time; time.sleep({PATIENCE_S})'"
    assert sent(targets(alert_command=hanging, alert_timeout_ms=100)) == [
        f"{python} was killed after 0.1 s"
    ]
    assert sent(targets(alert_command="/no/such/program")) == [
        "/no/such/program cannot be run: No such file or directory"
    ]
    assert sent(targets(alert_command=f"{python} -c pass")) == []


def test_a_receiver_that_is_not_there_is_a_sentence() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = server.server_port
    server.server_close()
    (wrong,) = sent(targets(alert_webhook=f"http://127.0.0.1:{port}/x"))
    assert wrong.startswith("the webhook cannot be reached: ")


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"alert_command": "say 'it"}, "alert_command: No closing quotation"),
        ({"alert_webhook": "file:///etc/passwd"}, "alert_webhook: write an address as http://"),
        ({"alert_webhook": "http://"}, "alert_webhook: write"),
    ],
)
def test_what_is_no_target_is_refused_at_the_start(settings: dict[str, str], wrong: str) -> None:
    with pytest.raises(OperatorError, match=wrong):
        targets(**settings)


async def test_without_targets_nothing_is_sent_and_without_accounting_only_the_text(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with running(tmp_path) as node:
        ring(node)
        assert node.flight.alerts.sent == 0
    async with running(tmp_path, alert_webhook=receiver.url, time_accounting=False) as node:
        ring(node)
        await until(lambda: receiver.got)
        (alert,) = receiver.alerts()
        assert alert["why_memory"] is None
        assert "time accounting is switched off" in str(alert["why_memory_text"])


def test_flight_records_have_no_address_of_a_webhook() -> None:
    kept = without_secrets({"alert_webhook": "http://x/s3cr3t", "alert_command": "c", "port": 1})
    assert kept == {"port": 1}
