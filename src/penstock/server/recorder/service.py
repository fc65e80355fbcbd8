"""The flight recorder of a running broker: takes rounds of snapshots, freezes, hands out records.

A round is taken in slices of SLICE_NS with GAP_S between them, so that no message waits longer for
it than that; a round that is still under way when the next is due takes its place. When an alarm
rings or many publishers are throttled for long, a record is made at once and kept in memory.

Records are compressed and bounded, and written on a thread of their own. The broker goes on
meanwhile: what is written is frozen, and the thread pauses between pieces of a few milliseconds,
because Python runs one thread at a time.
"""

import asyncio
import os
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Final

import penstock
from penstock.base.errors import OperatorError
from penstock.base.limits import INCIDENTS_KEPT, RECORD_BYTES
from penstock.broker.admin.view_memory import ViewMemory
from penstock.broker.admin.views import snapshot_steps
from penstock.broker.broker import Broker
from penstock.explain.freezing import Freezer
from penstock.server.recorder.alert_sender import AlertSender
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.flow_totals import FlowTotals
from penstock.telemetry.record_file import Encoder, RecordHeader
from penstock.telemetry.snapshots import ActorSnapshot

GZIP: Final = 31
"""zlib's window bits for a gzip file, which every tool opens."""

PAUSE_S: Final = 0.002
RESERVE_BYTES: Final = 262_144
"""Room that is kept for the piece under way and for what must come after what was left out."""

BUSY_BYTES: Final = 4096
"""A piece above it is work enough for a pause."""


def compressed(encoder: Encoder, bytes_max: int = RECORD_BYTES.default) -> bytes:
    """The record as a gzip file of at most `bytes_max`; what does not fit is left out by the
    encoder and counted in the file."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    parts: list[bytes] = []
    size = pending = 0
    for piece in encoder.pieces():
        part = squeeze.compress(piece)
        pending += len(piece)
        # What the compressor still keeps to itself must be known to keep the bound.
        if size + pending > bytes_max - RESERVE_BYTES:
            part += squeeze.flush(zlib.Z_SYNC_FLUSH)
            pending = 0
        if part:
            parts.append(part)
            size += len(part)
        if size >= bytes_max - RESERVE_BYTES:
            encoder.is_full = True
        if len(piece) > BUSY_BYTES:
            time.sleep(PAUSE_S)
    parts.append(squeeze.flush())
    return b"".join(parts)


SLICE_NS: Final = 1_000_000
GAP_S: Final = 0.004
LAST_S: Final = 600.0
"""How far back a record reaches unless less is asked for: as far as the history does."""

SECRET_WORDS: Final = ("password", "secret", "token", "private", "alert_")
"""Commands and addresses of alerts often have secrets in them."""

Taker = Callable[[ActorSnapshot], None]


@dataclass(slots=True)
class KeptRecord:
    """A record that is there or being written. number: 1.., unique in one run; why: for what;
    wall_ns: when."""

    number: int
    why: str
    wall_ns: int
    future: "Future[bytes]"

    def bytes_now(self) -> bytes | None:
        """The file, None while it is being written. Raises: OperatorError when that failed."""
        if not self.future.done():
            return None
        error = self.future.exception()
        if error is not None:
            raise OperatorError(f"the record could not be written: {error!r}") from error
        return self.future.result()


class RecorderService:
    """history: what answers are made from; totals: sums of what it has shown since the start;
    rounds, skipped: rounds taken, and those that were due while one was under way;
    longest_slice_ns: that one piece of one ever took."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, boot_id: str) -> None:
        self.broker = broker
        self.loop = loop
        self.boot_id = boot_id
        self.history = FlightHistory()
        self.freezer = Freezer()
        self.totals = FlowTotals()
        # One record at a time, in the order asked for.
        self._writer = ThreadPoolExecutor(1, "penstock-record")
        self.incidents: list[KeptRecord] = []
        self.asked: KeptRecord | None = None
        self.rounds = 0
        self.skipped = 0
        self.longest_slice_ns = 0
        self.alerts = AlertSender(broker, self.history, boot_id)
        self._memory = ViewMemory()
        self._kept_count = 0
        self._steps: Iterator[None] | None = None
        self._round_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    # -- rounds ----------------------------------------------------------------------------------

    def tick(self, also: Taker | None = None) -> None:
        """Once a second: begin a round; `also` is given every snapshot of it too. The first slice
        is taken at once, which is the whole round of a small broker."""
        if self._steps is not None:
            self.skipped += 1
            return
        self._round_ns = self.broker.clock.monotonic_ns()
        self._steps = self._round(also)
        self._slice()

    def is_looking(self) -> bool:
        """Whether a round is under way."""
        return self._steps is not None

    def _round(self, also: Taker | None) -> Iterator[None]:
        """Everything a round is, in short steps."""
        self.history.begin(self._round_ns)
        self.totals.begin()
        # Samples for event files are to be of this second, every one.
        memory = self._memory if also is None else None
        for snapshot in snapshot_steps(self.broker, memory):
            if snapshot is not None:
                self.history.take(snapshot)
                self.freezer.take(snapshot)
                self.totals.take(snapshot)
                if also is not None:
                    also(snapshot)
            yield None
        yield from self.history.ending()
        yield from self.totals.ending(self._round_ns)
        self._end()
        for _ in self.alerts.sending():
            yield None

    def _slice(self) -> None:
        steps = self._steps
        assert steps is not None, "slices are taken of a round"
        clock = self.broker.clock
        begin_ns = clock.monotonic_ns()
        is_over = True
        try:
            for _ in steps:
                if clock.monotonic_ns() - begin_ns >= SLICE_NS:
                    is_over = False
                    break
        except Exception:
            # The round is given up; the next one begins anew.
            self._steps = None
            raise
        self.longest_slice_ns = max(self.longest_slice_ns, clock.monotonic_ns() - begin_ns)
        if is_over:
            self._steps = None
        else:
            self._timer = self.loop.call_later(GAP_S, self._again)

    def _again(self) -> None:
        try:
            self._slice()
        except Exception as error:
            self.broker.log.error("a round of the flight recorder failed", error)

    def _end(self) -> None:
        self.rounds += 1
        why = self.freezer.end(self._round_ns)
        if why != "" and INCIDENTS_KEPT.default > 0:
            del self.incidents[: len(self.incidents) + 1 - INCIDENTS_KEPT.default]
            self.incidents.append(self._keep(why, LAST_S))
            self.broker.note(f"flight record kept ({why}): penstock record list")

    # -- records ---------------------------------------------------------------------------------

    def save(self, last_s: float, why: str) -> KeptRecord:
        """Begin a record of the last `last_s` seconds; one that was asked for before is dropped."""
        self.asked = self._keep(why, last_s)
        return self.asked

    def kept(self, number: int) -> KeptRecord:
        """The record with this number. Raises: OperatorError naming those that there are."""
        records = self.incidents + ([] if self.asked is None else [self.asked])
        for record in records:
            if record.number == number:
                return record
        raise OperatorError(
            f"no flight record {number} is kept; there are: "
            f"{', '.join(str(one.number) for one in self.incidents) or 'none'}"
        )

    def _keep(self, why: str, last_s: float) -> KeptRecord:
        self._kept_count += 1
        broker = self.broker
        recorder = broker.recorder
        header = RecordHeader(
            os.uname().nodename,
            self.boot_id,
            broker.clock.wall_ns(),
            broker.clock.monotonic_ns(),
            penstock.__version__,
            broker.profile.name,
            why,
            last_s,
            recorder.next_seq,
            recorder.dropped,
            without_secrets(asdict(broker.config)),
            {one.key: one.read() for one in broker.settings.all()},
        )
        encoder = Encoder(header, self.history.copy(), recorder.since(recorder.dropped))
        future = self._writer.submit(compressed, encoder)
        return KeptRecord(self._kept_count, why, header.wall_ns, future)

    def close(self) -> None:
        """Take no more, write no more; what is being written is dropped."""
        if self._timer is not None:
            self._timer.cancel()
        self.alerts.close()
        self._writer.shutdown(wait=False, cancel_futures=True)


def without_secrets(value: dict[str, object]) -> dict[str, object]:
    """`value` without every entry, at any depth, whose key has one of SECRET_WORDS in it."""
    return {
        key: _cleaned(one)
        for key, one in value.items()
        if not any(word in key.lower() for word in SECRET_WORDS)
    }


def _cleaned(value: object) -> object:
    if isinstance(value, dict):
        return without_secrets(value)
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return value
