"""`tests.spark.engine` as Spark 4.0 and 4.1 call a reader: without admission control.

`latestOffset()` says nothing of where the query is; after a restart there is first a question for
the parts of an empty range, at the last offset in the write-ahead log; a query that has committed
nothing runs its first batch even where it is empty, and asks for its beginning last. With trigger
availableNow one batch is run, or run again, and that is all. So it was seen in 4.0.5 and 4.1.4.
"""

import json
from pathlib import Path

from penstock.spark.connector.common.engines import ReaderWithoutStart
from tests.spark.engine import Died, Engine


class OldEngine(Engine):
    """One run of a query."""

    def __init__(self, directory: Path, options: dict[str, str]) -> None:
        super().__init__(directory, options)
        if not isinstance(self.reader, ReaderWithoutStart):
            self.reader = ReaderWithoutStart(self.reader)
        if self.batch >= 0:
            assert self.reader.partitions(self.end, self.end) == []

    def step(self) -> bool:
        """One trigger: False when there was nothing to do. Raises: Died."""
        if self._is_unfinished:
            return super().step()
        end = json.loads(json.dumps(self.reader.latestOffset()))
        self._maybe_die("latest")
        if self.batch >= 0 and end == self.end:
            return False
        self.batch += 1
        start = self.end if self.batch > 0 else self.reader.initialOffset()
        self._write("offsets", self.batch, {"start": start, "end": end})
        self._maybe_die("wal")
        if self.batch > 0:
            self.reader.commit(start)
        self._maybe_die("commit")
        self._run(start, end)
        return True


def once(directory: Path, options: dict[str, str], step: str = "") -> bool:
    """A run with trigger availableNow, which dies after `step`: whether there was a batch."""
    engine = OldEngine(directory, options)
    engine.dies_after = step
    try:
        return engine.step()
    except Died:
        return True
    finally:
        engine.stop()
