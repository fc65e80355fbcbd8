"""Templates, and the filters they write numbers and addresses with. Everything is escaped."""

from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock import __version__
from penstock.management.pages.drawing import HEIGHT, WIDTH, heat, lines, moments
from penstock.telemetry.words import amount, called, duration, percent, rate, size, waits_for

STATIC: Final = {
    "app.css": "text/css",
    "app.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
NS_PER_S: Final = 1_000_000_000
WHY_KIND: Final = {
    "conn": "connection",
    "chan": "channel",
    "queue": "queue",
    "consumer": "consumer",
    "store": "store",
}
"""What `why` calls the kinds of actors it answers about."""


@cache
def static_file(name: str) -> bytes:
    """A style sheet, script or picture of ours."""
    return (files("penstock.management.pages") / "static" / name).read_bytes()


@cache
def static_address(name: str) -> str:
    """Its address, another one for other content, so that browsers may keep it for ever."""
    mark = blake2b(static_file(name), digest_size=6).hexdigest()
    return f"/static/{name}?{mark}"


def address(path: str, **fields: object) -> str:
    """`path` with fields in its query, in which any name may stand."""
    said = {key: value for key, value in fields.items() if value not in ("", None)}
    return f"{path}?{urlencode(said)}" if said else path


def why_address(actor: str, record: int | None = None) -> str:
    """The page that says why `actor`, `conn:web-7` or `queue:/orders`, is held, or was in a record;
    "" for none."""
    kind, _, name = actor.partition(":")
    if kind not in WHY_KIND:
        return ""
    path = "/why" if record is None else "/record"
    return address(path, number=record, kind=WHY_KIND[kind], name=name.replace("@conn:", "@"))


def moment(wall_ms: float | None) -> str:
    """A time of day, of UTC; – for none."""
    if not wall_ms:
        return "–"
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def as_text(value: object) -> str:
    """Arguments, headers and definitions, as JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def number(value: float | None) -> str:
    """A count; – for none."""
    return "–" if value is None else amount(value)


def seconds(value: float | None) -> str:
    """A duration from seconds; – for none."""
    return "–" if value is None else duration(int(value * NS_PER_S))


@cache
def environment() -> Environment:
    """Names that a template misspells are an error, and not an empty text."""
    made = Environment(
        loader=PackageLoader("penstock.management.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "rate": rate,
        "size": size,
        "percent": percent,
        "ns": lambda value: duration(int(value)),
        "seconds": seconds,
        "moment": moment,
        "as_text": as_text,
        "called": called,
        "waits_for": waits_for,
        "heat": heat,
    }
    made.globals |= {
        "address": address,
        "why_address": why_address,
        "static": static_address,
        "lines": lines,
        "moments": moments,
        "chart_width": WIDTH,
        "chart_height": HEIGHT,
        "version": __version__,
    }
    return made


def render(template: str, **context: Any) -> str:
    """A page."""
    return environment().get_template(template).render(**context)
