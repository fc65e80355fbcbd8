"""Places that are not what was meant: other sockets, other servers, bytes that are no text."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from penstock.server.control.control_client import control_path
from tests.conformance.http_live import managed_broker
from tests.conformance.live import penstock_process
from tests.patience import PATIENCE_S
from tests.unit.cli.broker_process import BrokerProcess

LOGIN = {"PENSTOCK_USER": "guest", "PENSTOCK_PASSWORD": "guest"}


def refused(*words: str, **environment: str) -> str:
    """What an operator's fault says; everything else is raised."""
    done: Result = CliRunner().invoke(cli, list(words), env={**LOGIN, **environment})
    if not isinstance(done.exception, OperatorError):
        raise done.exception or AssertionError(f"not refused: {done.output}")
    return str(done.exception)


@contextmanager
def answering(path: Path, line: bytes) -> Iterator[None]:
    """A socket of another program, which answers everything with `line`."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            with server.accept()[0] as peer:
                peer.recv(1 << 16)
                peer.sendall(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    "line",
    [b"HTTP/1.1 400 Bad Request\r\n", b"\xff\xfe\n", b"[]\n"],
    ids=["http", "no text", "no object"],
)
@pytest.mark.parametrize("words", [("status",), ("queues", "declare", "x")], ids=" ".join)
def test_another_programs_socket_is_named(
    tmp_path: Path, line: bytes, words: tuple[str, ...]
) -> None:
    path = tmp_path / "other.sock"
    with answering(path, line):
        said = refused(*words, "--control", str(path))
    assert f"what answers at {path} is no broker of Penstock" in said


def test_a_name_that_is_not_utf8_is_refused_in_words(broker: BrokerProcess) -> None:
    where = ("--control", broker.control)
    for words in (("queues", "show", "a\udcff"), ("queues", "declare", "a\udcff")):
        assert "UTF-8" in refused(*words, *where) or "utf-8" in refused(*words, *where)
    assert "is not UTF-8" in refused("queues", "show", "a\udcff", "--url", "http://127.0.0.1:1")


def test_a_body_is_published_as_it_was_typed(broker: BrokerProcess) -> None:
    where = ("--control", broker.control)
    CliRunner().invoke(cli, ["queues", "declare", "bytes", *where], catch_exceptions=False)
    done = CliRunner().invoke(cli, ["queues", "publish", "bytes", "a\udcff", *where])
    assert done.exit_code == 0, done.exception
    with broker.connect() as connection:
        assert connection.channel().basic_get("bytes", auto_ack=True)[2] == b"a\xff"


@pytest.mark.parametrize("url", ["http://[::1", "http://a..b", f"http://{'x' * 70}.de"])
def test_an_address_that_is_none(url: str) -> None:
    assert url.removeprefix("http://")[:10] in refused("status", "--url", url)


def test_a_client_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "penstock" / "client.toml"
    path.parent.mkdir()
    path.write_bytes(b'["http://x:1"]\nuser = "\xff"\n')
    said = refused("status", "--url", "http://x:1", XDG_CONFIG_HOME=str(tmp_path))
    assert f"{path} is not TOML" in said


@contextmanager
def http_server(answer: object, status: int = 200) -> Iterator[str]:
    """Another HTTP server, which answers everything so; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("words", [("queues",), ("users",), ("flow", "edges"), ("policies",)])
@pytest.mark.parametrize("answer", [{}, [], "hello", None], ids=repr)
def test_another_server_behind_an_address(words: tuple[str, ...], answer: object) -> None:
    with http_server(answer) as url:
        done = CliRunner().invoke(cli, [*words, "--url", url], env=LOGIN)
    assert isinstance(done.exception, (OperatorError, type(None))), done.exception


def test_what_only_penstock_has_is_missed_by_name() -> None:
    """As RabbitMQ answers."""
    with http_server({"error": "Object Not Found", "reason": "Not Found"}, 404) as url:
        said = refused("why", "publish", "--url", url)
    assert said == f"{url} has no /api/flow/why/publish: it is another broker than Penstock"


def test_rows_beyond_a_page_of_http_come_once(tmp_path: Path) -> None:
    """Of 510 queues 505: some came twice, and people were shown 500."""
    with managed_broker(tmp_path) as managed:
        with BrokerProcess(managed.broker.port, "").connect() as connection:
            channel = connection.channel()
            names = {f"q{number:03}" for number in range(510)}
            for name in names:
                channel.queue_declare(name)
        where = ("--url", managed.base, "--limit", "505", "--sort", "name")
        done = CliRunner().invoke(cli, ["queues", *where, "--format", "json"], env=LOGIN)
        rows = [row["name"].removeprefix("/") for row in json.loads(done.stdout)["queues"]]
        assert rows == sorted(names)[:505]
        done = CliRunner().invoke(cli, ["queues", *where], env=LOGIN)
        assert "/q504" in done.stdout and "… 5 more of 510 queues" in done.stdout


def test_the_reason_of_a_close_may_be_any_text(tmp_path: Path) -> None:
    with managed_broker(tmp_path) as managed:
        connection = BrokerProcess(managed.broker.port, "").connect()
        name = CliRunner().invoke(
            cli, ["connections", "--url", managed.base, "--format", "json"], env=LOGIN
        )
        row = json.loads(name.stdout)["connections"][0]
        words = ["connections", "close", row["name"], "--reason", "Wartung für\n日本"]
        done = CliRunner().invoke(cli, [*words, "--url", managed.base], env=LOGIN)
        assert done.exit_code == 0, done.exception
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Wartung für 日本"):
            connection.process_data_events(PATIENCE_S)


def test_nobody_to_log_in_as(tmp_path: Path) -> None:
    """A script has no keyboard: it ended with "Aborted!"."""
    said = refused(
        "status", "--url", "http://127.0.0.1:1", PENSTOCK_USER="", XDG_CONFIG_HOME=str(tmp_path)
    )
    assert "give --login USER, set PENSTOCK_USER" in said


def test_a_single_broker_is_no_cluster(tmp_path: Path) -> None:
    with penstock_process(tmp_path) as single:
        for where in (("--port", str(single.port)), ("--control", control_path(single.port))):
            said = refused("cluster", "status", *where)
            assert said.startswith(f"the broker at {control_path(single.port)} is a single one")
    (tmp_path / "file").touch()
    assert "nor any socket" in refused("status", "--control", str(tmp_path / "file"))


def test_what_cannot_be_asked_of_a_cluster_without_yes(tmp_path: Path) -> None:
    where = ("--control", str(tmp_path / "none.sock"))
    assert refused("cluster", "force-leader", "a", *where).endswith("--yes says that it is meant")


def test_a_certificate_of_https_that_cannot_be_used(tmp_path: Path) -> None:
    """It was announced, and then a traceback; as a broker's child, again each second."""
    path = tmp_path / "none.pem"
    words = ("management", "--amqp", "amqp://127.0.0.1:1", "--http-port", "1", "--metrics-port=-1")
    said = refused(*words, "--http-cert", str(path), "--control", str(tmp_path / "none.sock"))
    assert said.startswith(f"the certificate {path} with the key {path} cannot be used for HTTPS")


def test_a_change_for_no_time_is_refused(broker: BrokerProcess) -> None:
    """It stayed for ever."""
    where = ("--control", broker.control)
    assert "--for 0s is no time" in refused(
        "flow", "set", "queue.depth=9000", "--for", "0s", *where
    )


def test_the_management_process_asks_no_other() -> None:
    words = ["management", "--url", "http://127.0.0.1:1", "--http-port", "1"]
    done = CliRunner().invoke(cli, words, env=LOGIN)
    assert done.exit_code == 2 and "--url is where this would serve" in done.output
