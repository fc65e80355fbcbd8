"""What is said before Spark starts anything: the first look at a broker, and how light it is."""

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.tls import tls
from penstock.client.errors import ConnectError
from penstock.protocol.methods import ConnectionClose, ConnectionStart
from penstock.protocol.methods.codec import method_frame
from penstock.spark.connector.common.opening import check_source

READ_BYTES = 4096
REFUSES_AFTER_S = 2.5
HEAVY = ("numpy", "pyarrow", "pandas")
WRONG = """
import sys
import pyspark.sql.worker.create_data_source
from penstock.spark.connector.source import AmqpDataSource
try:
    AmqpDataSource({"queue": "q", "maxOffsetPerTrigger": "5"}).schema()
except Exception as error:
    print(error)
print(sorted(sys.modules.keys() & set(sys.argv[1:])))
"""


@pytest.fixture
def slow_port() -> Iterator[int]:
    """A broker that lets a login wait, as they do to slow down whoever guesses, and refuses it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            client, _ = server.accept()
            with client:
                client.recv(READ_BYTES)
                client.sendall(method_frame(0, ConnectionStart()))
                client.recv(READ_BYTES)
                time.sleep(REFUSES_AFTER_S)
                client.sendall(method_frame(0, ConnectionClose(403, "ACCESS_REFUSED - no")))
                client.recv(READ_BYTES)

        thread = threading.Thread(target=refuse)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.slow
def test_a_login_that_is_refused_late_is_seen_by_the_first_look(slow_port: int) -> None:
    where = {"url": f"amqp://guest:wrong@127.0.0.1:{slow_port}", "queue": "q", "mode": "queue"}
    with pytest.raises(ConnectError, match="403 ACCESS_REFUSED"):
        check_source(where, "source")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_certificate_that_is_not_trusted_is_no_broker_that_is_away(
    tmp_path: Path, trusted: bool
) -> None:
    """Also one that is for another name."""
    CliRunner().invoke(tls, ["selfsigned", str(tmp_path), "--host", "broker.example"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                context.wrap_socket(client, server_side=True)

        thread = threading.Thread(target=answer)
        thread.start()
        where = {"url": f"amqps://guest:guest@127.0.0.1:{server.getsockname()[1]}", "queue": "q"}
        if trusted:
            where["tls.caFile"] = str(tmp_path / "ca.pem")
        expected = "(?s)IP address mismatch.*a name that it is for" if trusted else "tls.caFile"
        with pytest.raises(OperatorError, match=expected):
            check_source(where, "source")
        thread.join()


@pytest.mark.slow
def test_a_wrong_option_is_said_without_arrow() -> None:
    pytest.importorskip("pyspark")
    done = subprocess.run([sys.executable, "-c", WRONG, *HEAVY], capture_output=True, text=True)
    assert "did you mean maxOffsetsPerTrigger" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
