"""The flow map: connections, channels, queues, stores and consumers in columns, and who hands what
to whom, as coordinates of SVG.

It is made of the hops (`flow edges`), of the rates (`flow top`) and of the worst publisher's root
cause (`why publish`). What is held comes first; of each column the rest is one box called "others".
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from penstock.management.broker_link import Row
from penstock.management.pages.drawing import heat
from penstock.telemetry.words import called, name_of, percent, rate

COLUMNS: Final = ("connections", "channels", "queues", "store / disk", "consumers")
CHANNELS: Final = 1
QUEUES: Final = 2
STORES: Final = 3
CONSUMERS: Final = 4
COLUMN_OF: Final = {"conn": 0, "chan": 1, "queue": 2, "dead": 2, "exchange": 2, "store": 3}
ROWS_MAX: Final = 10
"""Boxes in a column."""
BOX_WIDTH: Final = 168
BOX_HEIGHT: Final = 38
STEP_X: Final = 220
STEP_Y: Final = 50
LEFT: Final = 8
TOP: Final = 34
HELD_MIN: Final = 0.001
LETTERS: Final = 20
"""Of a name, in a box."""
WIDTH_MAX: Final = 9.0
WIDTH_MIN: Final = 1.2
WIDTH_MARKED: Final = 3.0


@dataclass(slots=True)
class Box:
    """An actor. held: share of the last seconds in which it was held, 0..1; rate: messages a
    second; note: what else is said; place: of its order beside others of its column that are held
    as much; is_marked: whether it is on the way to the root cause; is_root: whether it is that."""

    actor: str
    column: int
    name: str
    held: float = 0.0
    rate: float = 0.0
    note: str = ""
    place: float = 0.0
    is_marked: bool = False
    is_root: bool = False
    x: int = 0
    y: int = 0

    @property
    def short(self) -> str:
        """The name, cut in the middle."""
        if len(self.name) <= LETTERS:
            return self.name
        half = LETTERS // 2
        return f"{self.name[: half - 1]}…{self.name[-half:]}"

    @property
    def numbers(self) -> str:
        """The second line of the box."""
        if self.is_root:
            return f"root cause: {self.note}"
        said = [rate(self.rate)] if self.rate else []
        if self.held >= HELD_MIN:
            said.append(f"{'full' if self.column == CONSUMERS else 'held'} {percent(self.held)}")
        is_told = self.note and self.held < HELD_MIN
        return " · ".join([*said, self.note] if is_told else said)

    @property
    def rank(self) -> tuple[bool, int, float, float, str]:
        return not self.is_marked, -heat(self.held), -self.rate, self.place, self.name


@dataclass(slots=True)
class Link:
    """A hop. is_held: whether its sender may hand over nothing now; is_marked: whether it is on the
    way to the root cause."""

    sender: Box
    receiver: Box
    rate: float = 0.0
    is_held: bool = False
    is_marked: bool = False
    width: float = WIDTH_MIN
    path: str = ""


@dataclass(slots=True)
class FlowMap:
    """What is drawn. heads: of the columns, with their places."""

    boxes: list[Box]
    links: list[Link]
    width: int
    height: int
    heads: list[tuple[int, str]] = field(default_factory=list)


class _Maker:
    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.links: dict[tuple[str, str], Link] = {}

    def box(self, actor: str, column: int, name: str) -> Box:
        found = self.boxes.get(actor)
        if found is None:
            found = self.boxes[actor] = Box(actor, column, name)
        return found

    def link(self, sender: Box, receiver: Box, rate: float = 0.0, is_held: bool = False) -> None:
        key = (sender.actor, receiver.actor)
        found = self.links.get(key)
        if found is None:
            found = self.links[key] = Link(sender, receiver)
        found.rate = max(found.rate, rate)
        found.is_held = found.is_held or is_held


def flow_map(edges: list[Row], top: Row, causes: list[Row]) -> FlowMap:
    """edges, top: answers of `flow`; causes: of the explanation of the worst publisher."""
    maker = _Maker()
    rates, held = _known(top)
    for edge in edges:
        sender = _end(maker, str(edge["sender"]))
        receiver = _end(maker, str(edge["receiver"]))
        if sender is None:
            continue
        if receiver is None:
            if edge["in_flight_messages"]:
                sender.note = f"{edge['in_flight_messages']} to the disk"
            continue
        maker.link(sender, receiver, 0.0, bool(edge["is_blocked"]))
    for actor, box in maker.boxes.items():
        box.rate = rates.get(actor, 0.0)
        box.held = held.get(actor, 0.0)
    _estimate(maker)
    _add_consumers(maker, top)
    # Connections that only consume have a box of that kind; what does nothing is left out.
    busy = {one.actor for one in maker.boxes.values() if _is_busy(one, maker)}
    _mark(maker, causes)
    shown = [box for box in maker.boxes.values() if box.actor in busy or box.is_marked]
    return _placed(shown, list(maker.links.values()))


def _known(top: Row) -> tuple[dict[str, float], dict[str, float]]:
    """Rates and shares that were held, by actor."""
    rates: dict[str, float] = {}
    held: dict[str, float] = {}
    for one in top["publishers"]:
        actor = f"conn:{one['name']}"
        rates[actor], held[actor] = one["rate"], one["blocked_share"]
    for one in top["queues"]:
        actor = f"queue:{one['name']}"
        rates[actor], held[actor] = one["in_rate"], one["blocked_share"]
    return rates, held


def _end(maker: _Maker, actor: str) -> Box | None:
    kind = actor.partition(":")[0]
    if actor == "disk":
        # The disk is drawn as what its stores wait for.
        return None
    column = COLUMN_OF.get(kind)
    if column is None:
        return None
    return maker.box(actor, column, called(actor) if column == STORES else name_of(actor))


def _estimate(maker: _Maker) -> None:
    """What goes over each hop at most: rates are known of connections and queues. A channel is as
    busy as its connection."""
    for link in maker.links.values():
        if link.receiver.column == CHANNELS:
            link.receiver.rate = max(link.receiver.rate, link.sender.rate)
    for link in maker.links.values():
        link.rate = link.sender.rate
        if link.receiver.column == QUEUES:
            link.rate = min(link.rate, link.receiver.rate)


def _add_consumers(maker: _Maker, top: Row) -> None:
    for one in top["consumers"]:
        queue = maker.box(f"queue:{one['queue']}", QUEUES, str(one["queue"]))
        actor = f"consumer:{one['tag']}@conn:{one['connection']}"
        box = maker.box(actor, CONSUMERS, str(one["connection"]))
        box.rate = one["out_rate"]
        box.held = one["held_share"]
        box.note = f"window {one['unacked']}/{one['prefetch'] or '∞'}"
        maker.link(queue, box, one["out_rate"], bool(one["is_full"]))


def _is_busy(box: Box, maker: _Maker) -> bool:
    if box.rate > 0 or box.held > 0 or box.column == CONSUMERS:
        return True
    return any(
        (link.receiver is box and link.rate > 0) or (link.sender is box and link.is_held)
        for link in maker.links.values()
    )


def _mark(maker: _Maker, causes: list[Row]) -> None:
    """The way to the root cause that costs most."""
    if not causes:
        return
    path = [str(one) for one in causes[0]["path"]]
    for sender, receiver in pairwise(path):
        link = maker.links.get((sender, receiver))
        if link is not None:
            link.is_marked = True
    known = [maker.boxes[actor] for actor in path if actor in maker.boxes]
    for box in known:
        box.is_marked = True
    roots = known[-1:]
    if known and path[-1].startswith("consumers:"):
        ways = [link for link in maker.links.values() if link.sender is known[-1]]
        ways = [link for link in ways if link.receiver.column == CONSUMERS and link.is_held]
        for link in ways:
            link.is_marked = link.receiver.is_marked = True
        roots = [link.receiver for link in ways] or roots
    for root in roots:
        root.is_root = True
        root.note = "window full" if root.column == CONSUMERS else str(causes[0]["reason"])


def _placed(boxes: list[Box], links: list[Link]) -> FlowMap:
    """Boxes in rows, those over ROWS_MAX of a column as one."""
    stands_for: dict[str, Box] = {}
    shown: list[Box] = []
    highest = 1
    for column in range(len(COLUMNS)):
        _set_places(column, links, stands_for)
        there = sorted((box for box in boxes if box.column == column), key=lambda box: box.rank)
        kept, rest = there[:ROWS_MAX], there[ROWS_MAX:]
        if rest:
            others = Box("", column, f"{len(rest)} others", max(box.held for box in rest))
            others.rate = sum(box.rate for box in rest)
            kept = [*kept, others]
            stands_for |= {box.actor: others for box in rest}
        for row, box in enumerate(kept):
            box.x, box.y = LEFT + column * STEP_X, TOP + row * STEP_Y
            stands_for.setdefault(box.actor, box)
        shown += kept
        highest = max(highest, len(kept))
    drawn = _drawn(links, stands_for)
    width = LEFT * 2 + STEP_X * (len(COLUMNS) - 1) + BOX_WIDTH
    heads = [(LEFT + index * STEP_X, head) for index, head in enumerate(COLUMNS)]
    return FlowMap(shown, drawn, width, TOP + highest * STEP_Y, heads)


def _set_places(column: int, links: list[Link], stands_for: dict[str, Box]) -> None:
    """Beside what they get messages from, so that fewer lines cross."""
    found: dict[str, list[int]] = {}
    for link in links:
        if link.receiver.column == column and link.sender.actor in stands_for:
            found.setdefault(link.receiver.actor, []).append(stands_for[link.sender.actor].y)
            link.receiver.place = sum(found[link.receiver.actor]) / len(found[link.receiver.actor])


def _drawn(links: list[Link], stands_for: dict[str, Box]) -> list[Link]:
    merged: dict[tuple[int, int], Link] = {}
    for link in links:
        sender = stands_for.get(link.sender.actor)
        receiver = stands_for.get(link.receiver.actor)
        if sender is None or receiver is None or sender is receiver:
            continue
        found = merged.setdefault((id(sender), id(receiver)), Link(sender, receiver))
        found.rate += link.rate
        found.is_held = found.is_held or link.is_held
        found.is_marked = found.is_marked or link.is_marked
    most = max((link.rate for link in merged.values()), default=0.0)
    for link in merged.values():
        part = link.rate / most if most > 0 else 0.0
        least = WIDTH_MARKED if link.is_marked else WIDTH_MIN
        link.width = round(max(least, WIDTH_MAX * part), 1)
        link.path = _curve(link.sender, link.receiver)
    # What is marked is drawn last, above the others.
    return sorted(merged.values(), key=lambda link: (link.is_marked, link.is_held))


def _curve(sender: Box, receiver: Box) -> str:
    x1, y1 = sender.x + BOX_WIDTH, sender.y + BOX_HEIGHT // 2
    x2, y2 = receiver.x, receiver.y + BOX_HEIGHT // 2
    if sender.column >= receiver.column:
        # Dead letters go from queue to queue: around the right side.
        x2 = receiver.x + BOX_WIDTH
        return f"M{x1},{y1} C{x1 + 40},{y1} {x2 + 40},{y2} {x2},{y2}"
    if receiver.column - sender.column > 1:
        # Past a column in between, below its boxes' middle.
        middle = (x1 + x2) // 2
        return f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    bend = (x2 - x1) // 2
    return f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
