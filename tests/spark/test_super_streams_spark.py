"""The pages' jobs for super streams as a user runs them: pika, a real broker, a real Spark."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from penstock.cli.streams import streams
from tests.patience import PATIENCE_S
from tests.spark.marks import IN_SPARK
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import patiently, read_stream

pytestmark = IN_SPARK

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS = 300


def code(page: str, section: str) -> str:
    """The first Python code of a section."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"\n## {section}.*?\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None, f"{page} has no code under {section}"
    return found[1]


def run(text: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_jobs_of_the_pages(java: Any, tmp_path: Path) -> None:
    """Publish and consume with pika, then read with Spark into another super stream, and once more
    with rows and a partition that came later: each row once, each key in its order."""
    with MortalBroker(tmp_path) as broker:
        url = broker.url

        def command(*words: str) -> None:
            control = ("--control", str(tmp_path / "c.sock"))
            done = CliRunner().invoke(streams, [words[0], *control, *words[1:]])
            assert done.exception is None, done.exception

        command("add-super", "invoices", "--partitions", "3")
        command("add-super", "paid", "--partitions", "4")
        publisher = code("streams.md", "Super streams")
        consumed = [line.split() for line in run(publisher, url).splitlines()]
        assert sorted(int(number) for _, _, number in consumed) == [*range(ROWS)]
        places = {(key, place) for place, key, _ in consumed}
        assert len(places) == 20 and len({place for _, place in places}) == 3
        job = code("spark-connector.md", "Super streams")
        run(job, url, str(tmp_path / "checkpoint"))
        command("add-partitions", "invoices", "--partitions", "1")
        with patiently(url) as connection:
            channel = connection.channel()
            channel.confirm_select()
            for number in range(ROWS, 2 * ROWS):
                channel.publish("invoices", f"customer-{number % 20}", b"%d" % number)
            channel.wait_for_confirms()
        run(job, url, str(tmp_path / "checkpoint"))
        paid = [list(map(int, read_stream(url, f"paid-{number}"))) for number in range(4)]
        assert sorted(number for rows in paid for number in rows) == [*range(2 * ROWS)]
        keys = [{number % 20 for number in rows} for rows in paid]
        assert sum(map(len, keys)) == 20, "a key has one partition"
        for rows in paid:
            for key in {number % 20 for number in rows}:
                first = [number for number in rows if number % 20 == key and number < ROWS]
                assert first == sorted(first)
