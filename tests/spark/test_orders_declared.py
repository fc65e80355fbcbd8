"""The declared pipeline of docs/orders.md is killed in mid-run and run again. About 45 s.

It cannot end before it is killed, because its dead letters go into a full queue as well.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.client.io_blocking import connect
from penstock.protocol.values import Table
from penstock.spark.java import JavaHome
from tests.patience import PATIENCE_S
from tests.spark.marks import IN_SPARK
from tests.spark.mortal import MortalBroker
from tests.spark.orders_page import copy_example

pytestmark = IN_SPARK
RUN_S_MAX = 600
FULL: Table = {"x-max-length": 1, "x-overflow": "backpressure"}
FIRST, THEN = 400, 100
CENTS = (450, 1580, 3600)
"""What the shop's orders come to, one after the other."""
CURRENCIES = ("EUR", "EUR", "CHF", "EUR", "BTC")


class Place:
    """A copy of the example, and the directory in which its pipeline runs."""

    def __init__(self, folder: Path, url: str, java_home: str) -> None:
        self.example = folder / "clone"
        self.folder = folder / "declared"
        self.folder.mkdir()
        copy_example(self.example, folder)
        scripts = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "ORDERS_URL": url,
            "SPARK_CONF_DIR": str(self.example),
            "PYTHONPATH": str(self.example),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": java_home,
        }

    def shop(self, *words: str) -> str:
        """What one of the shop's programs prints."""
        done = subprocess.run(
            [sys.executable, str(self.example / "shop.py"), *words],
            env=self._environment, capture_output=True, text=True, timeout=RUN_S_MAX,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pipeline(self) -> "subprocess.Popen[bytes]":
        """It runs."""
        with (self.folder / "said.txt").open("ab") as out:
            return subprocess.Popen(
                ["spark-pipelines", "run", "--spec", str(self.example / "spark-pipeline.yml")],
                cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        """By all of its runs."""
        return (self.folder / "said.txt").read_text(encoding="utf-8", errors="replace")

    def killed_when(self, is_time: Callable[[], bool]) -> None:
        """A run of which driver and Java are killed in the moment in which that is so."""
        run = self.pipeline()
        try:
            end_s = time.monotonic() + RUN_S_MAX
            while not is_time():
                assert run.poll() is None, f"it ended before it was killed:\n{self.said()}"
                assert time.monotonic() < end_s, self.said()
                time.sleep(0.05)
        finally:
            everything = psutil.Process(run.pid).children(recursive=True)
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            for one in everything:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        _, alive = psutil.wait_procs(everything, timeout=PATIENCE_S)
        assert not alive


def test_what_is_killed_in_mid_run_is_right_after_the_next_one(
    java: JavaHome, tmp_path: Path
) -> None:
    for name in ("grpc", "yaml"):
        pytest.importorskip(name)
    pandas: Any = pytest.importorskip("pandas")
    broker = MortalBroker(tmp_path)
    broker.start()
    try:
        place = Place(tmp_path, broker.url, java.home)
        place.shop("open")
        place.shop("sell", str(FIRST))
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.declare_queue("full", durable=True, arguments=FULL)
            channel.bind_queue("full", "shop.dead", "")
            channel.publish("", "full", b"")
        place.killed_when(lambda: waiting(broker.url, "invoices") > 0)
        with connect(broker.url) as connection:
            connection.channel().delete_queue("full")
        place.shop("sell", str(THEN))
        run = place.pipeline()
        assert run.wait(RUN_S_MAX) == 0, place.said()
        assert place.said().count("Run is COMPLETED") == 1, "the other one was killed"
        book = place.folder / "book.txt"
        print(place.shop("bill", str(book)))
        letters = place.shop("dead")
    finally:
        broker.stop()
    good = [n for count in (FIRST, THEN) for n in range(count) if n % 20 != 7]
    expected = Counter(CURRENCIES[n % 5] for n in good)
    sums = Counter[str]()
    for n in good:
        sums[CURRENCIES[n % 5]] += CENTS[n % 3]
    gold = pandas.read_parquet(place.folder / "spark-warehouse" / "gold")
    found = gold.groupby("currency")[["orders", "revenue"]].sum()
    assert {one: int(found["orders"][one]) for one in found.index} == dict(expected)
    assert {one: found["revenue"][one] * 100 for one in found.index} == {
        one: Decimal(cents) for one, cents in sums.items()
    }
    lines = book.read_text(encoding="utf-8").splitlines()
    billed = Counter(line.split()[0] for line in lines)
    assert set(billed.values()) == {1}, "no invoice came twice"
    assert len(billed) == len(good) - expected["BTC"]
    letters_of = {why: int(n) for n, why in re.findall(r"(\d+) (.+)", letters)}
    assert letters_of["dead letters"] == FIRST + THEN - len(billed)


def waiting(url: str, queue: str) -> int:
    with connect(url) as connection:
        return connection.channel().declare_queue(queue, passive=True).message_count
