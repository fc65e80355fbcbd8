"""Pages of flight records: which there are, and one of them."""

from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from penstock.explain.asking import Question
from penstock.explain.kinds import UNNAMED, WHY_KINDS
from penstock.management.errors import bad_request
from penstock.management.pages.flow_views import ago_of
from penstock.management.pages.html import address
from penstock.management.pages.opened_records import FIRST_FILE
from penstock.management.pages.visit import Form, View, Visit, goto, whole_in
from penstock.telemetry.snapshots import NS_PER_S

LAST_S_MAX: Final = 600


async def records(visit: Visit) -> Response:
    """Those that the broker keeps, and how far its recorder reaches."""
    visit.visitor.need_monitor()
    status = await visit.shared.samples.ask({"op": "record", "do": "status"})
    return await visit.page("records.html", status=status, last_max=LAST_S_MAX)


async def record(visit: Visit) -> Response:
    """One record: its summary, why somebody waited then, and what happened."""
    visit.visitor.need_monitor()
    number = _number(visit)
    kind, name = visit.asked("kind", "publish"), visit.asked("name")
    if kind not in WHY_KINDS:
        raise bad_request(f"why '{kind[:40]}'; one of: {', '.join(WHY_KINDS)}")
    window_s, ago_s = _seconds(visit, "window_s", 10), _seconds(visit, "ago_s", 0)
    found = await visit.shared.records.opened(number)
    about = "" if kind in UNNAMED else name
    answer = await visit.shared.records.why(found, Question(kind, about, window_s, ago_s))
    drawn = await visit.shared.records.map(found, window_s, ago_s)
    told, lines = await visit.shared.records.told(found)
    oldest_ns = found.history.oldest_ns() or found.header.mono_ns
    return await visit.page(
        "record.html",
        past=number,
        is_file=number >= FIRST_FILE,
        head=found.header,
        since=_time(found.wall_at(oldest_ns)),
        until=_time(found.header.wall_ns),
        why={"explanation": answer.explanation, "text": answer.text},
        map=drawn,
        summary=told,
        lines=lines,
        kind=kind,
        name=name,
        window_s=window_s,
        ago_s=ago_s,
        kinds=WHY_KINDS,
    )


async def record_file(visit: Visit) -> Response:
    """The record as `penstock record save` writes it."""
    visit.visitor.need_monitor()
    number = _number(visit)
    data = await visit.shared.records.data(number, await visit.shared.records.size(number))
    named = f'attachment; filename="penstock-{number}.pflow"'
    kind = "application/octet-stream"
    return Response(data, media_type=kind, headers={"content-disposition": named})


async def open_record(visit: Visit, data: bytes) -> Response:
    """A file that was saved, here or elsewhere, as the past."""
    visit.visitor.need_monitor()
    if not data:
        raise bad_request("record: choose a file")
    number = await visit.shared.records.open_file(data)
    return goto(address("/record", number=str(number)))


async def save_record(visit: Visit, form: Form) -> Response:
    """Take one now; it is shown when it is written."""
    visit.visitor.need_monitor()
    last_s = whole_in(form, "last_s")
    if not 1 <= last_s <= LAST_S_MAX:
        raise bad_request(f"last_s = {last_s}: must be 1..{LAST_S_MAX}")
    request = {"op": "record", "do": "save", "last_s": last_s}
    answer = await visit.shared.services.link.ask(request)
    visit.session.tell("the record stays until the next one is asked for: download what is needed")
    if others := answer.get("records", [])[1:]:
        told = ", ".join(
            f"/record?number={one['number']} of worker {one['worker']}" for one in others
        )
        visit.session.tell(f"this is the record of worker 0; there is one of each: {told}")
    at = form.get("at", "")
    ago_s = min(LAST_S_MAX, ago_of(at, "")) if at else 0
    where = {"kind": form.get("kind", ""), "name": form.get("name", "")} if at else {}
    number = str(int(answer["number"]))
    return goto(address("/record", number=number, ago_s=ago_s or "", **where))


def _number(visit: Visit) -> int:
    text = visit.asked("number")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise bad_request(f"number = {text[:20]!r} is no number of a record")
    return int(text)


def _seconds(visit: Visit, key: str, default: int) -> int:
    text = visit.asked(key, str(default))
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_S_MAX))
    if not is_number or int(text) > LAST_S_MAX:
        raise bad_request(f"{key} = {text[:20]!r}: must be 0..{LAST_S_MAX}")
    return int(text)


def _time(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


VIEWS: Final[dict[str, View]] = {
    "/records": records,
    "/record": record,
    "/record/file": record_file,
}
