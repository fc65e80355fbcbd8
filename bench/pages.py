"""Whether fifty open pages are felt by messages: round trips of a client beside a broker with a
thousand queues, with and without them, in turns.

    python bench/pages.py --pages 50 --seconds 10 --rounds 3
"""

import argparse
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pika

from tests.conformance.live import free_port

PAGES: Final = (
    *(("/", 1.0), ("/flow", 1.0), ("/queues", 3.0), ("/connections", 3.0)),
    *(("/why", 2.0), ("/queue?vhost=/&name=ping", 2.0), ("/accounts", 2.0), ("/channels", 3.0)),
)
"""What is open, and how often each is asked for again, seconds."""
QUEUES: Final = 1_000
START_S: Final = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watch", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch:
        watch(given.watch, given.pages)
        return
    port, http_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--memory", "--management"]
        command += ["--port", str(port), "--http-port", str(http_port), "--metrics-port", "-1"]
        with (Path(folder) / "log").open("wb") as log:
            broker = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                compare(port, http_port, given)
            finally:
                broker.send_signal(signal.SIGTERM)
                broker.wait()


def compare(port: int, http_port: int, given: argparse.Namespace) -> None:
    """Rounds without and with pages, in turns."""
    wait_for(http_port)
    prepare(http_port)
    connection = pika.BlockingConnection(
        pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port}/%2F")
    )
    channel = connection.channel()
    channel.queue_declare("ping")
    round_trips(channel, 1.0)
    for number in range(given.rounds):
        for pages in (0, given.pages):
            watcher = None
            if pages:
                command = [sys.executable, __file__, "--watch", str(http_port)]
                watcher = subprocess.Popen(
                    [*command, "--pages", str(pages)],
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
                time.sleep(8.0)
            found = round_trips(channel, given.seconds)
            said = {"round": number, "pages": pages, **found}
            if watcher is not None:
                watcher.send_signal(signal.SIGTERM)
                out, _ = watcher.communicate()
                said |= json.loads(out or b"{}")
            print(json.dumps(said), flush=True)
    connection.close()


def wait_for(http_port: int) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=START_S)
            connection.request("GET", "/login")
            connection.getresponse().read()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def prepare(http_port: int) -> None:
    """Queues that are listed."""
    queues = [
        {"name": f"q{number}", "durable": False, "auto_delete": False, "arguments": {}}
        for number in range(QUEUES)
    ]
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=START_S)
    login = {"authorization": "Basic " + b64encode(b"guest:guest").decode()}
    body = json.dumps({"queues": queues})
    connection.request("POST", "/api/definitions/%2F", body, login)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status == 204, said


def round_trips(channel: pika.adapters.blocking_connection.BlockingChannel, seconds: float) -> dict:  # type: ignore[type-arg]
    """Publish one message and get it, again and again: milliseconds of each."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        channel.basic_publish("", "ping", b"x")
        while channel.basic_get("ping", auto_ack=True)[0] is None:
            pass
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(0.002)
    times.sort()
    return {
        "trips": len(times),
        "p50_ms": round(times[len(times) // 2], 3),
        "p99_ms": round(times[int(len(times) * 0.99)], 3),
        "max_ms": round(times[-1], 2),
    }


# -- the pages -----------------------------------------------------------------------------------


def watch(http_port: int, pages: int) -> None:
    """Keep `pages` open until SIGTERM, as the script does; then say how long they took."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=START_S)
    form = urlencode({"user": "guest", "password": "guest"})
    connection.request("POST", "/login", form)
    answer = connection.getresponse()
    cookie = re.findall(r"^[^;]*", answer.headers["set-cookie"])[0]
    answer.read()
    times: list[float] = []

    def follow(path: str, every_s: float) -> None:
        own = http.client.HTTPConnection("127.0.0.1", http_port, timeout=START_S)
        wait_s = every_s
        while not ended.wait(wait_s):
            began = time.perf_counter()
            own.request("GET", path, headers={"cookie": cookie, "x-live": "1"})
            answer = own.getresponse()
            answer.read()
            assert answer.status == 200, path
            wait_s = every_s * float(answer.headers["x-wait"])
            times.append(time.perf_counter() - began)

    threads = [
        threading.Thread(target=follow, args=one)
        for one in itertools.islice(itertools.cycle(PAGES), pages)
    ]
    for one in threads:
        one.start()
    ended.wait()
    for one in threads:
        one.join()
    times.sort()
    said = {"answers": len(times)}
    if times:
        said |= {
            "page_p50_ms": round(times[len(times) // 2] * 1000),
            "page_p99_ms": round(times[int(len(times) * 0.99)] * 1000),
        }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
