"""The amqp-tools package: C programs over librabbitmq, against the live broker."""

import shutil
import subprocess

import pytest

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(
    shutil.which("amqp-publish") is None, reason="amqp-tools is not installed"
)


def tool(broker: Broker, program: str, *options: str, given: bytes = b"") -> tuple[int, str, str]:
    """Exit status, output and errors of one tool."""
    ended = subprocess.run(
        [program, f"--url={broker.url}", *options],
        input=given,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def test_publish_get_and_consume(broker: Broker, name: str) -> None:
    assert tool(broker, "amqp-declare-queue", "-q", name) == (0, name + "\n", "")
    for body in ("one", "two", "three"):
        assert tool(broker, "amqp-publish", "-r", name, "-b", body) == (0, "", "")
    assert tool(broker, "amqp-get", "-q", name) == (0, "one", "")
    consumed = tool(broker, "amqp-consume", "-q", name, "-c", "2", "-p", "1", "cat")
    assert consumed == (0, "twothree", "")
    assert tool(broker, "amqp-get", "-q", name)[0] == 2, "empty"
    assert tool(broker, "amqp-delete-queue", "-q", name) == (0, "0\n", "")


def test_a_large_body_from_standard_input(broker: Broker, name: str) -> None:
    body = "x" * 400_000
    tool(broker, "amqp-declare-queue", "-q", name)
    assert tool(broker, "amqp-publish", "-r", name, "-p", given=body.encode())[0] == 0
    assert tool(broker, "amqp-get", "-q", name) == (0, body, "")
    tool(broker, "amqp-delete-queue", "-q", name)


def test_an_error_is_told(broker: Broker, name: str) -> None:
    status, _, errors = tool(broker, "amqp-get", "-q", name)
    assert status == 1
    assert f"404, message: NOT_FOUND - no queue '{name}' in vhost '/'" in errors
