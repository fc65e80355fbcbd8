"""Pages of what only Penstock has: the flow map and its hops, why somebody waits, accounts, alarms,
and settings that may change while the broker runs."""

import time
from typing import Any, Final

from starlette.responses import Response

from penstock.base.config import LOG_LEVELS
from penstock.base.shown_names import vhost_and_name
from penstock.explain.kinds import UNNAMED, WHY_KINDS
from penstock.management.broker_link import Row
from penstock.management.errors import bad_request
from penstock.management.pages.flow_map import FlowMap, flow_map
from penstock.management.pages.visit import View, Visit

EDGES_MAX: Final = 200
TOP_MAX: Final = 200
EVENTS_SHOWN: Final = 200
LINES_SHOWN: Final = 200
SHOWN_MAX: Final = 20
WINDOW_S: Final = 10.0
WINDOW_S_MAX: Final = 600.0
NAME_MAX: Final = 1_000
"""Letters of a name that is asked about."""
AGO_S_MAX: Final = 600
AT_DIGITS: Final = 11
"""Kinds of questions that have no name."""


async def why_or_none(visit: Visit, kind: str, name: str) -> Row | None:
    """The explanation of one object, for those who may see it."""
    if not visit.visitor.sees_all:
        return None
    return await _why(visit, kind, name, WINDOW_S)


async def _why(visit: Visit, kind: str, name: str, window_s: float, ago_s: float = 0.0) -> Row:
    request: Row = {"op": "why", "kind": kind, "name": name, "window_s": window_s}
    if ago_s > 0:
        request["ago_s"] = ago_s
    return await visit.shared.samples.ask(request)


def ago_of(at: str, ago: str) -> int:
    """Seconds before now that are asked for, as `at`, seconds since 1970, or as `ago`; AGO_S_MAX at
    most, since the recorder reaches no further back. Raises: HttpFault 400."""
    for key, text in (("at", at), ("ago_s", ago)):
        if text and (not text.isascii() or not text.isdecimal() or len(text) > AT_DIGITS):
            raise bad_request(f"{key} = {text[:20]!r} is no number of seconds")
    ago_s = max(0, int(time.time()) - int(at)) if at else int(ago or 0)
    if ago_s > AGO_S_MAX:
        raise bad_request(f"{ago_s} s ago is too long ago: the recorder has {AGO_S_MAX} s at most")
    return ago_s


async def _edges(visit: Visit, is_blocked: bool = False) -> Row:
    request = {"op": "flow", "do": "edges", "limit": EDGES_MAX, "blocked": is_blocked}
    return await visit.shared.samples.ask(request)


async def flow_of_node(visit: Visit) -> dict[str, Any]:
    """The map, and the sentence above it."""
    top = await visit.shared.samples.ask({"op": "flow", "do": "top", "limit": TOP_MAX})
    edges = await _edges(visit)
    why = await _why(visit, "publish", "", WINDOW_S)
    causes = why["explanation"].get("causes", [])
    drawn: FlowMap = flow_map(edges["edges"], top, causes)
    return {"map": drawn, "why": why, "edges": edges, "top": top}


async def flow(visit: Visit) -> Response:
    """The map, and every hop: who hands what to whom, and who is held."""
    visit.visitor.need_monitor()
    found = await flow_of_node(visit)
    only_held = visit.asked("blocked") == "true"
    shown = await _edges(visit, True) if only_held else found["edges"]
    return await visit.page("flow.html", flow=found, edges=shown, only_held=only_held)


async def why(visit: Visit) -> Response:
    """Why one actor waits; without a name, whom one can ask about."""
    visit.visitor.need_monitor()
    kind, name = visit.asked("kind", "publish"), visit.asked("name")
    if kind not in WHY_KINDS:
        raise bad_request(f"why '{kind[:40]}'; one of: {', '.join(WHY_KINDS)}")
    if len(name) > NAME_MAX:
        raise bad_request(f"a name has at most {NAME_MAX} characters")
    text = visit.asked("window_s", "10")
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= WINDOW_S_MAX:
        raise bad_request(f"window_s = {text[:20]!r}: must be 1..{WINDOW_S_MAX:.0f}")
    ago_s = ago_of(visit.asked("at"), visit.asked("ago_s"))
    answer = None
    if name != "" or kind in UNNAMED:
        # The form may still have the name of something that was asked about before.
        about = "" if kind in UNNAMED else name
        answer = await _why(visit, kind, about, float(text), float(ago_s))
    top = await visit.shared.samples.ask({"op": "flow", "do": "top", "limit": TOP_MAX})
    queues = [one for one in top["queues"] if one["ready"] or one["in_rate"] or one["out_rate"]]
    return await visit.page(
        "why.html",
        queues=queues[:SHOWN_MAX],
        place=vhost_and_name(name) or (name, ""),
        why=answer,
        kind=kind,
        name=name,
        window_s=int(text),
        ago_s=ago_s,
        then_s=int(time.time()) - ago_s if ago_s else 0,
        top=top,
        kinds=WHY_KINDS,
        unnamed=UNNAMED,
    )


async def accounts(visit: Visit) -> Response:
    """Whose work is in progress, and whose messages are stored."""
    visit.visitor.need_monitor()
    request = {"op": "flow", "do": "accounts", "limit": EDGES_MAX}
    answer = await visit.shared.samples.ask(request)
    return await visit.page("accounts.html", answer=answer)


async def alarms(visit: Visit) -> Response:
    """Alarms of memory and disk, how far they are, and whom they stop."""
    visit.visitor.need_monitor()
    ask = visit.shared.samples.ask
    answer = await ask({"op": "flow", "do": "alarms"})
    record = await ask({"op": "record", "do": "status"})
    memory = await _why(visit, "memory", "", WINDOW_S)
    return await visit.page("alarms.html", alarms=answer["alarms"], memory=memory, record=record)


async def events(visit: Visit) -> Response:
    """What happened lately, the newest first."""
    visit.visitor.need_monitor()
    answer = await visit.shared.samples.ask({"op": "events", "last": EVENTS_SHOWN})
    return await visit.page("events.html", lines=answer["lines"][::-1])


async def log(visit: Visit) -> Response:
    """The newest lines of the broker's log, the newest first, of a level and above."""
    visit.visitor.need_monitor()
    level = visit.asked("level", LOG_LEVELS[0])
    if level not in LOG_LEVELS:
        raise bad_request(f"level '{level[:40]}'; one of: {', '.join(LOG_LEVELS)}")
    answer = await visit.shared.samples.ask({"op": "log", "last": LINES_SHOWN, "level": level})
    lines = answer["lines"][::-1]
    return await visit.page("log.html", lines=lines, level=level, levels=LOG_LEVELS)


async def settings(visit: Visit) -> Response:
    """Settings of flow control: what they are now, and when they go back."""
    visit.visitor.need_monitor()
    answer = await visit.shared.samples.ask({"op": "flow", "do": "settings"})
    return await visit.page("settings.html", settings=answer["settings"])


VIEWS: Final[dict[str, View]] = {
    "/flow": flow,
    "/why": why,
    "/accounts": accounts,
    "/alarms": alarms,
    "/events": events,
    "/log": log,
    "/settings": settings,
}
