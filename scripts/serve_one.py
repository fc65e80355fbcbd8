"""Has an installed Penstock serve one message to pika: the least that an installation must do.

    python scripts/serve_one.py         with the Python that has penstock-mq and pika

It starts `penstock serve` of its environment and looks for its address in what that prints.
"""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pika

ADDRESS: Final = re.compile(r"amqp://127\.0\.0\.1:(\d+)")
SECONDS: Final = 60.0
BODY: Final = b"hello"


def main() -> int:
    command = [str(Path(sys.executable).parent / "penstock"), "serve", "--memory", "--port", "0"]
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
            body = sent_and_got(int(found[1]))
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=SECONDS)
    assert body == BODY and broker.returncode == 0, (body, broker.returncode)
    print(f"served one message: {head}")
    return 0


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
