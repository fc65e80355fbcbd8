"""What the control socket answers about the flight recorder: its state, records, and live events.

A record may be large, so it is fetched in parts: `save` names a number, `part` gives PART_BYTES of
it from an offset, in base64, or says that it is still being written.
"""

from base64 import b64encode
from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.explain.naming import Names
from penstock.explain.render import event_line
from penstock.explain.window_index import emptying
from penstock.server.control.request import Request
from penstock.server.recorder.service import LAST_S, RecorderService

PART_BYTES: Final = 262_144
EVENTS_MAX: Final = 1000
STEP_EVENTS: Final = 64


class RecordQuestions:
    """Answers from the flight recorder; every one is quick."""

    def __init__(self, service: RecorderService) -> None:
        self.service = service

    def listing(self, _request: Request) -> dict[str, object]:
        return {"incidents": self._incidents()}

    def status(self, _request: Request) -> dict[str, object]:
        service = self.service
        recorder = service.broker.recorder
        kept = recorder.next_seq - recorder.dropped
        oldest = recorder.since(recorder.dropped, 1)
        now_ns = service.broker.clock.monotonic_ns()
        since_ns = service.history.oldest_ns()
        return {
            "is_recording": recorder.capacity > 0,
            "is_accounting": service.broker.scheduler.is_accounting,
            "events_kept": kept,
            "events_max": recorder.capacity,
            "events_dropped": recorder.dropped,
            "events_s": (now_ns - oldest[0].t_ns) / 1e9 if oldest else 0.0,
            "history_s": 0.0 if since_ns is None else (now_ns - since_ns) / 1e9,
            "actors": sum(1 for _ in service.history.fine.trails()),
            "rounds": service.rounds,
            "rounds_skipped": service.skipped,
            "longest_slice_ms": service.longest_slice_ns / 1e6,
            "incidents": self._incidents(),
        }

    def _incidents(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for one in self.service.incidents:
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

    def save(self, request: Request) -> dict[str, object]:
        incident = request.fields.get("incident")
        if isinstance(incident, int):
            return {"number": self.service.kept(incident).number}
        last = request.fields.get("last_s", LAST_S)
        if not isinstance(last, int | float) or not 0 < last <= LAST_S:
            raise OperatorError(f"a record reaches back 1s to {LAST_S / 60:g}m, not {last} s")
        return {"number": self.service.save(float(last), "asked for").number}

    def part(self, request: Request) -> dict[str, object]:
        number, offset = request.fields.get("number"), request.fields.get("offset", 0)
        if not isinstance(number, int) or not isinstance(offset, int) or offset < 0:
            raise OperatorError("a part of a record has a number and an offset")
        data = self.service.kept(number).bytes_now()
        if data is None:
            return {"is_ready": False}
        part = data[offset : offset + PART_BYTES]
        return {"is_ready": True, "bytes": len(data), "data": b64encode(part).decode("ascii")}

    def events(self, request: Request) -> Steps[dict[str, object]]:
        """Events from the ring: `since`, a sequence, or the last `last` of them, in steps. Raises:
        OperatorError."""
        recorder = self.service.broker.recorder
        if recorder.capacity == 0:
            raise OperatorError("nothing is recorded: recorder_events is 0")
        since, last = request.fields.get("since"), request.fields.get("last", 20)
        if not isinstance(since, int) or since < 0:
            if not isinstance(last, int) or last < 0:
                raise OperatorError(f"{last!r} is not a number of events")
            since = max(recorder.dropped, recorder.next_seq - last)
        events = recorder.since(since, EVENTS_MAX)
        next_seq = events[-1].seq + 1 if events else max(since, recorder.next_seq)
        plain: list[object] = []
        lines: list[str] = []
        if events:
            look = yield from self.service.history.looking(1.0)
            names = Names({})
            yield from names.reading(look.windows)
            yield from emptying((look.windows,))
            clock = self.service.broker.clock
            wall_ns = clock.wall_ns() - clock.monotonic_ns()
            for index, event in enumerate(events, 1):
                plain.append(event.plain())
                lines.append(event_line(event, wall_ns + event.t_ns, names))
                if index % STEP_EVENTS == 0:
                    yield 0.0
        return {"next": next_seq, "events": plain, "lines": lines}
