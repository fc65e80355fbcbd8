"""Has an installed Penstock serve one message to pika: the least that an installation must do.
Where the management process is installed as well, its first page is opened, too.

    python scripts/serve_one.py         with the Python that has penstock-mq and pika

It starts `penstock serve` of its environment, looks for its address in what that prints, and says
how long each step took.
"""

import base64
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pika

ADDRESS: Final = re.compile(r"amqp://127\.0\.0\.1:(\d+)")
SECONDS: Final = 60.0
BODY: Final = b"hello"


def main() -> int:
    command = [str(Path(sys.executable).parent / "penstock"), "serve", "--memory", "--port", "0"]
    http_port = free_port() if find_spec("starlette") else 0
    if http_port:
        command += ["--management", "--http-port", str(http_port), "--metrics-port", "-1"]
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-one-") as folder,
        subprocess.Popen(
            [*command, "--control", f"{folder}/control"], stdout=subprocess.PIPE, text=True
        ) as broker,
    ):
        try:
            assert broker.stdout is not None, "asked for"
            head = broker.stdout.readline().strip()
            found = next(filter(None, map(ADDRESS.search, broker.stdout)), None)
            assert found is not None, f"no address in what it printed: {head}"
            ready_s = time.monotonic() - began_s
            body = sent_and_got(int(found[1]))
            steps = f"listening after {ready_s:.1f} s, first message {lapsed(began_s)}"
            if http_port:
                steps += f", {opened(http_port)} {lapsed(began_s)}"
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=SECONDS)
    assert body == BODY and broker.returncode == 0, (body, broker.returncode)
    print(f"served one message: {head} ({steps})")
    return 0


def lapsed(began_s: float) -> str:
    """Since `began_s`, in words."""
    return f"after {time.monotonic() - began_s:.1f} s"


def free_port() -> int:
    """A loopback port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def opened(port: int) -> str:
    """What of the management process answers: its first page, or the API where it has none.

    Raises: AssertionError after SECONDS."""
    end_s = time.monotonic() + SECONDS
    login = base64.b64encode(b"guest:guest").decode()
    while time.monotonic() < end_s:
        for path, name in (("/", "first page"), ("/api/overview", "HTTP API")):
            asked = Request(f"http://127.0.0.1:{port}{path}")
            asked.add_header("Authorization", f"Basic {login}")
            try:
                with urlopen(asked, timeout=SECONDS) as answer:
                    assert answer.status == 200, answer.status
                    return name
            except HTTPError as error:
                assert error.code == 404, f"{path} is answered by {error.code}"
            except URLError:
                time.sleep(0.05)
    raise AssertionError(f"nothing answers on port {port}")


def sent_and_got(port: int) -> bytes | None:
    """The body that comes back from a queue."""
    parameters = pika.ConnectionParameters("127.0.0.1", port, socket_timeout=SECONDS)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("one")
    channel.basic_publish("", "one", BODY)
    _, _, body = channel.basic_get("one", auto_ack=True)
    connection.close()
    return body if isinstance(body, bytes) else None


if __name__ == "__main__":
    sys.exit(main())
