"""`penstock users` and `penstock permissions`, asked of a broker."""

import json
import os
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.broker.session.passwords import ARGON2, hash_fault, is_password
from penstock.cli.permissions import permissions
from penstock.cli.serve import _say_open
from penstock.cli.users import users
from penstock.cli.vhosts import vhosts
from penstock.server.boot.config_file import read_config
from tests.patience import PATIENCE_S
from tests.unit.cli.broker_process import BrokerProcess, broker_process


def connection(broker: BrokerProcess, user: str, password: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            broker.port,
            credentials=pika.PlainCredentials(user, password),
            socket_timeout=PATIENCE_S,
            stack_timeout=PATIENCE_S,
            blocked_connection_timeout=PATIENCE_S,
        )
    )


def test_a_user_from_beginning_to_end(broker: BrokerProcess) -> None:
    said = broker.said(users, "add", "app", "pw", options=("--tag", "monitoring"))
    assert "user 'app' is there" in said.out
    broker.said(permissions, "set", "app", "^app", "^(app|amq\\.default$)", "^app")
    broker.said(permissions, "set-topic", "app", "amq.topic", "^{username}", "")
    found = json.loads(broker.said(permissions, "list", options=("--format", "json")).out)
    assert [row["user"] for row in found["permissions"]] == ["app", "guest"]
    assert [row["exchange"] for row in found["topic_permissions"]] == ["amq.topic"]
    assert "amq.topic" in broker.said(permissions, "list", options=("--user", "app")).out
    opened = connection(broker, "app", "pw")
    channel = opened.channel()
    channel.queue_declare("app.q")
    channel.basic_publish("", "app.q", b"one")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="queue 'other'"):
        channel.queue_declare("other")
    rows = json.loads(broker.said(users, options=("--format", "json")).out)["users"]
    assert [(row["name"], row["connections"]) for row in rows] == [("app", 1), ("guest", 0)]
    assert "monitoring" in broker.said(users).out
    broker.said(users, "set-tags", "app", "impersonator")
    broker.said(users, "change-password", "app", "new")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connection(broker, "app", "pw")
    second = connection(broker, "app", "new")
    assert "connections closed: 2" in broker.said(users, "delete", "app").out
    for one in (opened, second):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'app' is deleted"):
            # It may return for an event before that one.
            while True:
                one.process_data_events(PATIENCE_S)
    assert "no user 'app'" in broker.said(users, "delete", "app").error


def test_rights_that_are_taken_away(broker: BrokerProcess) -> None:
    broker.said(users, "add", "shop", "pw")
    broker.said(permissions, "set", "shop", ".*", ".*", ".*")
    opened = connection(broker, "shop", "pw")
    channel = opened.channel()
    channel.confirm_delivery()
    channel.queue_declare("shop")
    channel.basic_publish("", "shop", b"one")
    broker.said(permissions, "clear-topic", "shop")
    broker.said(permissions, "clear", "shop")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user 'shop'"):
        channel.basic_publish("", "shop", b"two")
    opened.close()
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="access to vhost '/'"):
        connection(broker, "shop", "pw")


def test_a_hash_for_the_configuration(tmp_path: Path) -> None:
    hashed = CliRunner().invoke(users, ["hash-password"], input="pw\n").stdout.strip()
    assert is_password("pw", hashed, ARGON2) and hash_fault(hashed, ARGON2) == ""
    path = tmp_path / "penstock.toml"
    path.write_text(f"[[users]]\nname = 'a'\npassword_hash = '{hashed}'\n", encoding="utf-8")
    (user,) = read_config(str(path)).users
    assert (user.password_hash, user.hashing, user.password) == (hashed, ARGON2, "")
    done = CliRunner().invoke(users, ["hash-password"], input="\n")
    assert isinstance(done.exception, OperatorError)


@pytest.mark.parametrize(
    "row", ["password = ''", "", "password = 'a'\npassword_hash = 'b'", "password_hash = '$x'"]
)
def test_users_that_could_not_log_in_are_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(f"[[users]]\nname = 'a'\n{row}\n", encoding="utf-8")
    with pytest.raises(OperatorError, match="user 'a'"):
        read_config(str(path))


@pytest.mark.parametrize(
    "text", ["[[users]]\nname = 'a'\npassword = 'b'\n", "[oauth]\nsecret = 'b'\n"]
)
def test_a_file_with_secrets_that_others_may_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """F120."""
    path = tmp_path / "penstock.toml"
    path.write_text(text, encoding="utf-8")
    for mode, is_said in ((0o644, True), (0o640, True), (0o600, False)):
        os.chmod(path, mode)
        _say_open(str(path), read_config(str(path)))
        assert ("others may read it" in capsys.readouterr().out) == is_said


def test_changes_are_in_the_audit_log_without_secrets(tmp_path: Path) -> None:
    with broker_process(tmp_path, data=str(tmp_path / "data")) as broker:
        broker.said(users, "add", "app", "pw")
        broker.said(users, "delete", "nobody")
        broker.said(permissions, "set", "app", "^a", "^b", "^c")

    (path,) = tmp_path.rglob("audit.jsonl")
    text = path.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["did"] for row in rows] == ["users add", "permissions set"]
    assert rows[0]["user"] == f"uid {os.getuid()}" and rows[0]["what"]["name"] == "app"
    assert "argon2id$" not in text and "password_hash" not in text


def test_a_virtual_host_from_beginning_to_end(broker: BrokerProcess) -> None:
    assert "vhost 'shop' is there" in broker.said(vhosts, "add", "shop").out
    opened = broker.connect("shop")
    channel = opened.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", "q", b"%d" % number)
    rows = json.loads(broker.said(vhosts, options=("--format", "json")).out)["vhosts"]
    found = [(one["name"], one["queues"], one["messages"], one["connections"]) for one in rows]
    assert ("shop", 1, 5, 1) in found
    assert "shop" in broker.said(vhosts, "list").out
    said = broker.said(vhosts, "delete", "shop", options=("--yes",)).out
    assert "connections closed: 1, queues deleted: 1" in said
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="vhost 'shop' is deleted"):
        while True:
            opened.process_data_events(PATIENCE_S)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost shop not found"):
        broker.connect("shop")
    # The name is free, and its store is that of before.
    broker.said(vhosts, "add", "shop")
    again = broker.connect("shop")
    channel = again.channel()
    channel.confirm_delivery()
    assert channel.queue_declare("q", durable=True).method.message_count == 0
    channel.basic_publish("", "q", b"one")
    assert channel.queue_declare("q", durable=True, passive=True).method.message_count == 1
    again.close()
    broker.said(vhosts, "delete", "shop", options=("--yes",))
    assert (
        "vhost '/' is in the configuration"
        in broker.said(vhosts, "delete", "/", options=("--yes",)).error
    )


def test_permissions_in_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    users_of_it = '[[users]]\nname = "app"\npassword = "pw"\n'
    rights = 'user = "app"\nconfigure = ""\nwrite = "^o"\nread = ""\n'
    path.write_text(f"{users_of_it}[[permissions]]\n{rights}")
    (row,) = read_config(str(path)).permissions
    assert (row.user, row.vhost, row.configure, row.write, row.read) == ("app", "/", "", "^o", "")
    for text, words in (
        ('user = "app"\nwrite = ""\nread = ""', "configure, write, read are patterns"),
        ('configure = ""\nwrite = ""\nread = ""', "names its user"),
        ('user = "app"\nconfigure = "("\nwrite = ""\nread = ""', "permissions of user 'app'"),
    ):
        path.write_text(f"{users_of_it}[[permissions]]\n{text}\n")
        with pytest.raises(OperatorError, match=words):
            read_config(str(path))


def test_a_password_that_is_no_text(broker: BrokerProcess) -> None:
    words = ["add", "eve", "--control", broker.control]
    done = CliRunner().invoke(users, words, input=b"\xff\n")
    assert isinstance(done.exception, OperatorError), done.exception
    assert (
        str(done.exception) == "what standard input has as password is not UTF-8, as passwords are"
    )
