"""What operators do every day, over the control socket and over HTTP, with the same words."""

import csv
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import click
import pika
import pytest
from click.testing import CliRunner
from pika.exceptions import ChannelClosedByBroker

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from penstock.cli.ways import WAYS
from tests.conformance.http_live import managed_broker
from tests.conformance.live import Broker
from tests.patience import PATIENCE_S
from tests.unit.cli.broker_process import Said

ADVICE = re.compile(r"(?:`|: |see |after |\()penstock ([a-z]+(?: [a-z][a-z-]*)?)")
SOURCES = Path(__file__).resolve().parents[3] / "src" / "penstock"


class Asked:
    """The commands over one way. where: the options that say which."""

    def __init__(self, broker: Broker, where: tuple[str, ...]) -> None:
        self.broker = broker
        self.where = where

    def __call__(self, *words: str, stdin: str = "") -> Said:
        environment = {"PENSTOCK_USER": "guest", "PENSTOCK_PASSWORD": "guest"}
        given = [*words, *self.where]
        done = CliRunner().invoke(cli, given, input=stdin, env=environment)
        if isinstance(done.exception, OperatorError):
            return Said(done.stdout, str(done.exception), 2)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.stdout, done.stderr, done.exit_code)

    def out(self, *words: str) -> str:
        said = self(*words)
        assert said.status == 0, said
        return said.out

    def json(self, *words: str) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = json.loads(self.out(*words, "--format", "json"))
        return found


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    with managed_broker(tmp_path_factory.mktemp("daily")) as managed:
        yield {
            "socket": Asked(managed.broker, ("--port", str(managed.broker.port))),
            "http": Asked(managed.broker, ("--url", managed.base)),
        }


@pytest.fixture(params=["socket", "http"])
def penstock(request: pytest.FixtureRequest, ways: dict[str, Asked]) -> Asked:
    return ways[request.param]


def test_a_queue_from_its_declaration_to_its_end(penstock: Asked) -> None:
    declare = ("queues", "declare", "jobs", "-a")
    assert penstock.out(*declare, "x-max-length=9") == "queue 'jobs' in vhost '/' is there\n"
    penstock.out(*declare, "x-max-length=9")
    assert penstock(*declare, "x-max-length=8").error == (
        "inequivalent arg 'x-max-length' for queue 'jobs' in vhost '/': "
        "received '8' but current is '9'"
    )
    for body in ("one", "two", "three"):
        penstock.out("queues", "publish", "/jobs", body, "-H", "n=1")
    for _ in range(2):
        (row, _) = penstock.json("queues", "peek", "jobs", "-n", "2")["messages"]
        assert (row["payload"], row["properties"]) == (
            "one",
            {"delivery_mode": 2, "headers": {"n": 1}},
        )
    assert "one" in penstock.out("queues", "get", "jobs")
    assert "two" in penstock.out("queues", "get", "jobs")
    assert "/jobs" in penstock.out("queues") and "jobs" in penstock.out("queues", "show", "jobs")
    said = penstock("queues", "purge", "jobs", stdin="n\n")
    assert said.status == 2 and "--yes" in said.error
    assert "1 message thrown away" in penstock.out("queues", "purge", "jobs", "--yes")
    assert "no message that is ready" in penstock.out("queues", "get", "jobs")
    assert penstock.out("queues", "delete", "jobs", "--yes").endswith("is deleted\n")
    gone = penstock("queues", "delete", "jobs", "--yes")
    assert gone.error == "no queue 'jobs'; `penstock queues` lists them" and gone.status == 2


def test_messages_are_moved_and_what_cannot_be_stays(penstock: Asked) -> None:
    """To a queue, into an exchange by their own key, and by another one."""

    def bodies(queue: str) -> list[str]:
        rows = penstock.json("queues", "peek", queue, "-n", "20")["messages"]
        return [str(row["payload"]) for row in rows]

    def moved(*words: str) -> object:
        answer: dict[str, object] = dict(penstock.json("queues", "move", *words))
        return answer["moved"]

    def refused(*words: str) -> str:
        said = penstock("queues", "move", *words)
        assert said.status == 2
        return said.error

    penstock.out("queues", "declare", "failed", "-a", "x-queue-type=quorum")
    penstock.out("queues", "declare", "again")
    for number in range(5):
        penstock.out("queues", "publish", "failed", f"{number}", "-H", f"n={number}")
    said = "2 messages of queue 'failed' in vhost '/' are moved to queue 'again'\n"
    assert penstock.out("queues", "move", "failed", "again", "-n", "2") == said
    assert (bodies("failed"), bodies("again")) == (["2", "3", "4"], ["0", "1"])
    assert moved("failed", "again") == 3
    (first, *_) = penstock.json("queues", "peek", "again")["messages"]
    assert first["properties"] == {"delivery_mode": 2, "headers": {"n": 0}}
    assert moved("failed", "again") == 0
    # As listings have them, too.
    assert moved("/failed", "/again") == 0
    # By its own key it goes back to where it was, by another one to nobody.
    penstock.out("exchanges", "declare", "retries", "--type", "direct")
    penstock.out("bindings", "bind", "retries", "failed", "--key", "again")
    assert moved("again", "-x", "retries", "-n", "1") == 1
    assert bodies("failed") == ["0"]
    assert "no queue for key 'x'; 0 messages were moved" in refused(
        "again", "-x", "retries", "-k", "x"
    )
    # Nothing is taken out that has not arrived.
    full = ("-a", "x-max-length=1", "-a", "x-overflow=reject-publish")
    penstock.out("queues", "declare", "small", *full)
    assert "'small' takes no more" in refused("again", "small")
    assert bodies("again") == ["1", "2", "3", "4"]
    assert "no queue 'nowhere'" in refused("again", "nowhere")
    assert "cannot be moved into itself" in refused("again", "again")
    assert "say where to" in refused("again")
    for queue in ("failed", "again", "small"):
        penstock.out("queues", "delete", queue, "--yes")
    penstock.out("exchanges", "delete", "retries", "--yes")


def test_the_log_is_shown_wherever_it_goes(penstock: Asked) -> None:
    parameters = pika.URLParameters(penstock.broker.url)
    parameters.client_properties = {"connection_name": "log-reader"}
    with pika.BlockingConnection(parameters) as connection, pytest.raises(ChannelClosedByBroker):
        connection.channel().queue_declare("nowhere", passive=True)
    assert "log-reader" in penstock.out("log", "-n", "1000")
    rows = penstock.json("log", "--level", "warning")["lines"]
    assert {row["level"] for row in rows} <= {"warning", "error"}
    assert any("no queue 'nowhere'" in str(row["message"]) for row in rows)
    (head, *lines) = penstock.out("log", "-n", "2", "--format", "csv").splitlines()
    assert head == "seq,time,level,event,message" and len(lines) == 2
    assert penstock("log", "--level", "loud").status == 2
    assert penstock("log", "-n", "0").status == 2


def test_exchanges_and_bindings(penstock: Asked) -> None:
    penstock.out("queues", "declare", "mail")
    penstock.out("exchanges", "declare", "news", "--type", "topic")
    penstock.out("bindings", "bind", "news", "mail", "--key", "a.*", "-a", "x=1")
    (row,) = penstock.json("bindings", "list", "--source", "news", "--vhost", "/")["bindings"]
    assert (row["destination"], row["routing_key"], row["arguments"]) == ("mail", "a.*", {"x": 1})
    penstock.out("exchanges", "publish", "news", "a.b", "hello")
    nowhere = penstock("exchanges", "publish", "news", "b.b", "hello")
    assert nowhere.status == 2 and "went nowhere" in nowhere.error
    missing = penstock("exchanges", "publish", "none", "b.b", "hello")
    assert missing.error == "no exchange 'none' in vhost '/'"
    wrong = penstock("bindings", "unbind", "news", "mail", "--key", "a.*")
    assert "its keys there: 'a.*'" in wrong.error
    penstock.out("bindings", "unbind", "news", "mail", "--key", "a.*", "-a", "x=1")
    rows = csv.DictReader(StringIO(penstock.out("exchanges", "--format", "csv")))
    assert "news" in [row["name"] for row in rows]
    penstock.out("exchanges", "delete", "news", "--yes")
    penstock.out("queues", "delete", "mail", "--yes")
    kept = penstock("exchanges", "delete", "amq.topic", "--yes")
    assert kept.status == 2 and "amq.topic" in penstock.out("exchanges")


def test_who_is_connected_and_closing_it(penstock: Asked) -> None:
    where = pika.ConnectionParameters("127.0.0.1", penstock.broker.port, stack_timeout=PATIENCE_S)
    connection = pika.BlockingConnection(where)
    channel = connection.channel()
    channel.queue_declare("work", auto_delete=True)
    channel.basic_consume("work", lambda *_: None, consumer_tag="reader")
    (row,) = penstock.json("connections")["connections"]
    name = str(row["name"])
    assert "guest" in penstock.out("connections", "show", name)
    (found,) = penstock.json("channels", "list", "--connection", name)["channels"]
    assert found["consumer_count"] == 1
    shown = f"{name.partition(' -> ')[0]}/{found['number']}"
    assert shown in penstock.out("channels") and "guest" in penstock.out("channels", "show", shown)
    assert "/work" in penstock.out("consumers")
    assert "reader" in penstock.out("consumers", "show", "reader")
    assert "is closed: tea" in penstock.out("connections", "close", name, "--reason", "tea")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="tea"):
        connection.process_data_events(PATIENCE_S)
    assert penstock("connections", "close", name).status == 2


def test_users_and_what_they_may(penstock: Asked) -> None:
    assert "user 'anna' is there" in penstock.out("users", "add", "anna", "secret")
    assert penstock("users", "add", "anna", "secret").status == 2
    penstock.out("users", "set-tags", "anna", "monitoring")
    penstock.out("permissions", "set", "anna", "^a", "", ".*")
    assert "^a" in penstock.out("permissions", "show", "anna")
    assert "monitoring" in penstock.out("users", "show", "anna")
    penstock.out("limits", "set", "user", "anna", "max-channels=7")
    assert re.search(r"max-channels +7", penstock.out("limits", "show", "user", "anna"))
    assert penstock.out("limits", "remove", "user", "anna") == "user 'anna': no limits\n"
    penstock.out("policies", "set", "short", "^x", '{"max-length": 5}')
    assert "max-length" in penstock.out("policies", "show", "short")
    penstock.out("policies", "remove", "short")
    penstock.out("permissions", "remove", "anna")
    penstock.out("vhosts", "add", "team")
    assert "team" in penstock.out("vhosts", "show", "team")
    penstock.out("vhosts", "delete", "team", "--yes")
    penstock.out("users", "delete", "anna")
    assert "anna" not in penstock.out("users")


def test_what_is_not_there_is_named(penstock: Asked) -> None:
    for words, text in (
        (("queues", "--vhost", "nowhere"), "no vhost 'nowhere'"),
        (("exchanges", "--vhost", "nowhere"), "no vhost 'nowhere'"),
        (("users", "delete", "nobody"), "no user 'nobody'"),
        (("vhosts", "delete", "nowhere", "--yes"), "no vhost 'nowhere'"),
        (("connections", "close", "nobody"), "no connection 'nobody'"),
        (("channels", "show", "nobody/1"), "no connection 'nobody'"),
        (("policies", "clear", "none"), "no policy 'none' in vhost '/'"),
    ):
        said = penstock(*words)
        assert said.status == 2 and said.error.startswith(text), (words, said)
    for words in (("vhosts", "add", ""), ("users", "add", "", "x"), ("exchanges", "declare", "")):
        said = penstock(*words)
        assert said.status == 2 and "is there already" not in said.error, (words, said)
    penstock.out("permissions", "set-topic", "guest", "amq.topic", "a", "b")
    said = penstock("permissions", "clear-topic", "guest")
    assert said.out == "user 'guest' in vhost '/': any routing key of every exchange\n"


def test_flow_and_status(penstock: Asked) -> None:
    assert penstock.out("status").startswith("version      penstock")
    assert "nothing is blocked" in penstock.out("why")
    assert penstock.out("flow", "top", "--once").startswith("penstock top")
    assert "hops" in penstock.out("flow", "edges")
    assert penstock.out("status", "--format", "csv").startswith("version,")


def test_options_of_the_broker_may_stand_before_the_verb(penstock: Asked) -> None:
    words = ["users", *penstock.where, "show", "guest"]
    where, penstock.where = penstock.where, ()
    try:
        assert "administrator" in penstock.out(*words)
    finally:
        penstock.where = where


def test_a_wrong_password_and_one_on_the_command_line(ways: dict[str, Asked]) -> None:
    url = ways["http"].where[1]
    runner = CliRunner()
    done = runner.invoke(cli, ["queues", "--url", url], env={"PENSTOCK_USER": "eve"}, input="no\n")
    assert isinstance(done.exception, OperatorError)
    assert "refuses user 'eve'" in str(done.exception)
    shown = url.replace("//", "//guest:guest@")
    done = runner.invoke(cli, ["queues", "--url", shown])
    assert "can be read by everybody" in str(done.exception)


def exists(*words: str) -> bool:
    """Whether `penstock WORDS` is a command; of a group with a verb, the verb too."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    if len(words) == 1 or not isinstance(command, click.Group):
        return command is not None
    return command.get_command(context, words[1]) is not None


def advised() -> set[tuple[str, ...]]:
    """The commands in texts of the broker: `penstock queues resume /orders`."""
    found: set[tuple[str, ...]] = set()
    for path in SOURCES.rglob("*.py"):
        # A text may go on in the next line of the source.
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        for line in text.splitlines():
            for quoted in ADVICE.findall(line):
                found.add(tuple(quoted.split()[:2]))
    return found


def test_every_command_that_texts_advise_exists() -> None:
    found = advised()
    assert {("queues", "resume"), ("queues", "purge"), ("flow", "set"), ("why", "queue")} <= found
    assert [words for words in sorted(found) if not exists(*words)] == []


def test_every_question_of_the_table_is_asked_by_a_command() -> None:
    """`op` and `do` of the table are words of commands, so that none is left behind."""
    for name in WAYS:
        op, _, do = name.partition(" ")
        words = (do, "list") if op == "objects" else (op, do) if do else (op,)
        assert name == "flow settings" or exists(*words), name


def test_the_error_tells_a_missing_right_from_a_missing_broker(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from penstock.server.control.control_client import ask\n"
        "from penstock.base.errors import OperatorError\n"
        "path, uid = sys.argv[1], int(sys.argv[2])\n"
        "if uid: os.setuid(uid)\n"
        "try: ask(path, {})\n"
        "except OperatorError as error: print(error)\n"
    )

    def said(path: Path, uid: int) -> str:
        words = [sys.executable, "-c", program, str(path), str(uid)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert "is `penstock serve` running, and on this port?" in said(tmp_path / "none.sock", 0)
    path = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    assert "one that has ended has left its socket" in said(path, 0)
    if os.getuid() == 0:
        for one in (tmp_path, *tmp_path.parents[:2]):
            one.chmod(0o755)
        assert "of user root alone" in said(path, 65_534)
