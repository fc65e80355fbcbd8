"""What the control socket answers about the flight recorder: its state, records, and live events.

A record may be large, so it is fetched in parts: `save` names a number, `part` gives PART_BYTES of
it from an offset, in base64, or says that it is still being written.
"""

from base64 import b64encode
from typing import Final

from penstock.base.errors import OperatorError
from penstock.explain.naming import Names
from penstock.explain.render import event_line
from penstock.server.recorder.service import LAST_S, RecorderService
from penstock.telemetry.events import Event

PART_BYTES: Final = 262_144
EVENTS_MAX: Final = 1000


class RecordQuestions:
    """Answers from the flight deck; every one is quick."""

    def __init__(self, deck: RecorderService) -> None:
        self.deck = deck

    def record(self, request: dict[str, object]) -> dict[str, object]:
        """`do`: status, list, save, part. Raises: OperatorError."""
        do = request.get("do")
        if do == "status":
            return self._status()
        if do == "list":
            return {"incidents": self._incidents()}
        if do == "save":
            return self._save(request)
        if do == "part":
            return self._part(request)
        raise OperatorError(f"unknown wish {do!r} for the recorder; one of: status, list, save")

    def _status(self) -> dict[str, object]:
        deck = self.deck
        recorder = deck.broker.recorder
        kept = recorder.next_seq - recorder.dropped
        oldest = recorder.since(recorder.dropped, 1)
        now_ns = deck.broker.clock.monotonic_ns()
        since_ns = deck.history.oldest_ns()
        return {
            "is_recording": recorder.capacity > 0,
            "is_accounting": deck.broker.scheduler.is_accounting,
            "events_kept": kept,
            "events_max": recorder.capacity,
            "events_dropped": recorder.dropped,
            "events_s": (now_ns - oldest[0].t_ns) / 1e9 if oldest else 0.0,
            "history_s": 0.0 if since_ns is None else (now_ns - since_ns) / 1e9,
            "actors": sum(1 for _ in deck.history.fine.trails()),
            "rounds": deck.rounds,
            "rounds_skipped": deck.skipped,
            "longest_slice_ms": deck.longest_slice_ns / 1e6,
            "incidents": self._incidents(),
        }

    def _incidents(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for one in self.deck.incidents:
            data = one.bytes_now() if one.future.done() else None
            rows.append(
                {
                    "number": one.number,
                    "why": one.why,
                    "wall_ns": one.wall_ns,
                    "bytes": None if data is None else len(data),
                }
            )
        return rows

    def _save(self, request: dict[str, object]) -> dict[str, object]:
        incident = request.get("incident")
        if isinstance(incident, int):
            return {"number": self.deck.kept(incident).number}
        last = request.get("last_s", LAST_S)
        if not isinstance(last, int | float) or not 0 < last <= LAST_S:
            raise OperatorError(f"a record reaches back 1s to {LAST_S / 60:g}m, not {last} s")
        return {"number": self.deck.save(float(last), "asked for").number}

    def _part(self, request: dict[str, object]) -> dict[str, object]:
        number, offset = request.get("number"), request.get("offset", 0)
        if not isinstance(number, int) or not isinstance(offset, int) or offset < 0:
            raise OperatorError("a part of a record has a number and an offset")
        data = self.deck.kept(number).bytes_now()
        if data is None:
            return {"is_ready": False}
        part = data[offset : offset + PART_BYTES]
        return {"is_ready": True, "bytes": len(data), "data": b64encode(part).decode("ascii")}

    def events(self, request: dict[str, object]) -> dict[str, object]:
        """Events from the ring: `since`, a sequence, or the last `last` of them. Raises:
        OperatorError."""
        recorder = self.deck.broker.recorder
        if recorder.capacity == 0:
            raise OperatorError("nothing is recorded: recorder_events is 0")
        since, last = request.get("since"), request.get("last", 20)
        if not isinstance(since, int) or since < 0:
            if not isinstance(last, int) or last < 0:
                raise OperatorError(f"{last!r} is not a number of events")
            since = max(recorder.dropped, recorder.next_seq - last)
        events = recorder.since(since, EVENTS_MAX)
        return {
            "next": events[-1].seq + 1 if events else max(since, recorder.next_seq),
            "events": [event.plain() for event in events],
            "lines": self._lines(events),
        }

    def _lines(self, events: list[Event]) -> list[str]:
        if not events:
            return []
        names = Names(self.deck.history.over(1.0))
        clock = self.deck.broker.clock
        wall_ns = clock.wall_ns() - clock.monotonic_ns()
        return [event_line(event, wall_ns + event.t_ns, names) for event in events]
