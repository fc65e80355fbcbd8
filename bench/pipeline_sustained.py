"""A query that follows a file which grows at an even pace: its lag. For `pipeline_growth.py`."""

import argparse
import os
import signal
import statistics
import threading
import time
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.pipeline import BUCKET_NS, check, warm_session, worked_s
from bench.pipeline_events import write_events
from penstock.spark.job.job import SparkJob

TRIGGER_S: Final = 1.0
FEED_S: Final = 0.05
LOOK_S: Final = 0.2
CATCH_UP_S: Final = 60.0
"""How long a query may take for what is left when all is written."""

WARM_S: Final = 10.0
"""At the beginning, which are told apart: Java compiles."""

LAG_S_MAX: Final = 5.0


class Feed(threading.Thread):
    """Appends the lines of a file to another one at an even pace. per_s: lines; seconds: for how
    long, or until there are no more."""

    def __init__(self, lines: Path, target: Path, per_s: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._lines, self._target = lines, target
        self._per_s, self._seconds = per_s, seconds
        self.written: list[int] = []
        self.at_s: list[float] = []
        """How many lines were written, and since when."""

    def run(self) -> None:
        """Ends when all is written."""
        with self._lines.open("rb") as source, self._target.open("ab", buffering=0) as target:
            target.write(source.readline())
            began_s, count = time.monotonic(), 0
            line = 150
            while (now_s := time.monotonic() - began_s) < self._seconds:
                wanted = int(now_s * self._per_s) - count
                block = source.read(wanted * line) + source.readline()
                if not block:
                    break
                target.write(block)
                lines = block.count(b"\n")
                count += lines
                line = max(1, len(block) // max(1, lines))
                self.written.append(count)
                self.at_s.append(time.monotonic())
                time.sleep(FEED_S)

    def at(self, count: int) -> float:
        """When the line behind the first `count` lines was written."""
        return self.at_s[min(bisect_right(self.written, count), len(self.at_s) - 1)]


def sustained(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """The lag of a query that follows; see above."""
    write_events(place / "in", int(options.rate * (options.seconds + 1)), options.shape, boots=1)
    (source,) = (place / "in").iterdir()
    grown = place / "grown"
    grown.mkdir()
    batches: list[tuple[int, float, float]] = []
    with warm_session(place) as spark:
        job = SparkJob(spark, grown, place / "tables", BUCKET_NS)
        feed = Feed(source, grown / source.name, options.rate, options.seconds)
        taken = 0

        def told(count: int) -> None:
            nonlocal taken
            now_s = time.monotonic()
            if count:
                batches.append((count, now_s - feed.at(taken), now_s))
                taken += count

        def stop() -> None:
            feed.join()
            end_s = time.monotonic() + CATCH_UP_S
            while taken < feed.written[-1] and time.monotonic() < end_s:
                time.sleep(LOOK_S)
            os.kill(os.getpid(), signal.SIGINT)

        worked = worked_s()
        feed.start()
        threading.Thread(target=stop, daemon=True).start()
        with suppress(KeyboardInterrupt):
            job.follow(TRIGGER_S, told)
        worked = worked_s() - worked
        job.update()
        check(job, feed.written[-1])
    began_s = feed.at_s[0]
    steady = [lag for _, lag, now_s in batches if now_s - began_s > WARM_S] or [
        lag for _, lag, _ in batches
    ]
    written, took_s = feed.written[-1], feed.at_s[-1] - began_s
    return {
        "events": written,
        "written_per_s": round(written / took_s) if took_s else 0,
        "batches": len(batches),
        "lag_s_median": round(statistics.median(steady), 2),
        "lag_s_most": round(max(steady), 2),
        "lag_s_most_with_start": round(max(lag for _, lag, _ in batches), 2),
        "processor_us_per_event": round(worked / written * 1e6, 1),
        "wanted": f"lag at most {LAG_S_MAX:g} s",
        "is_met": max(steady) <= LAG_S_MAX,
    }
