"""What the control socket answers about definitions: all of them, or adding some.

One request is {"op": "definitions", "do": "export"}, or {"op": "definitions", "do": "import",
"definitions": {...}, "vhost": ""}; see broker/admin/definitions_import. Both go in steps, about
50 µs for each queue or binding, and an import is answered when the disk has it.
"""

from typing import Final

import msgspec

import penstock
from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_export import exporting
from penstock.broker.admin.definitions_import import checking, importing
from penstock.broker.broker import Broker
from penstock.server.control.request import Request

REST_S: Final = 0.01
DISK_LOOKS: Final = 3000
"""How often to look whether the disk has an import, REST_S apart."""


class DefinitionQuestions:
    """is_importing: one at a time. Raises: OperatorError for definitions with a fault."""

    def __init__(self) -> None:
        self.is_importing = False

    def export(self, request: Request) -> Steps[dict[str, object]]:
        found, notes = yield from exporting(request.broker, penstock.__version__)
        return {"definitions": found, "notes": notes}

    def add(self, request: Request) -> Steps[dict[str, object]]:
        """Import."""
        vhost, elsewhere = _meant(request)
        if self.is_importing:
            raise OperatorError("another import is under way; try again when it has ended")
        self.is_importing = True
        try:
            definitions = yield from _read(request.fields.get("definitions"))
            done = yield from importing(request.broker, definitions, vhost, elsewhere)
            request.run_soon()
            notes = list(done.notes)
            if not (yield from reach_disk(request.broker)):
                notes.append("the disk does not have all of it yet; see the broker's log")
            answer: dict[str, object] = {"imported": dict(done.counts), "notes": notes}
            return answer | ({"shared": dict(done.shared)} if "elsewhere" in request.fields else {})
        finally:
            self.is_importing = False

    def check(self, request: Request) -> Steps[dict[str, object]]:
        """What an import would change, which changes nothing: how many rows on the disk."""
        vhost, elsewhere = _meant(request)
        definitions = yield from _read(request.fields.get("definitions"))
        return {"changes": (yield from checking(request.broker, definitions, vhost, elsewhere))}


def _meant(request: Request) -> tuple[str, frozenset[str]]:
    """The virtual host of rows that name none, and those of other workers of this node."""
    given = request.fields.get("elsewhere", [])
    if not isinstance(given, list):
        raise OperatorError("elsewhere is a list of virtual hosts")
    elsewhere = frozenset(str(one) for one in given)
    vhost = request.text("vhost")
    return vhost if vhost in elsewhere else request.vhost(), elsewhere


def reach_disk(broker: Broker) -> Steps[bool]:
    """Whether the disk has what was changed up to now, after a while."""
    catalogue = broker.catalogue
    mark = catalogue.hand_over()
    for _ in range(DISK_LOOKS):
        if catalogue.has(mark):
            return True
        yield REST_S
    return False


def _read(given: object) -> Steps[dict[str, object]]:
    """The definitions of a request, which come unread (see control_socket), row by row.

    Raises: OperatorError."""
    assert isinstance(given, msgspec.Raw | None), "the control socket leaves them unread"
    try:
        parts = msgspec.json.decode(given or b"null", type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise OperatorError("definitions import needs the definitions as an object") from error
    found: dict[str, object] = {}
    for key, value in parts.items():
        yield 0.0
        try:
            rows = msgspec.json.decode(value, type=list[msgspec.Raw])
        except msgspec.ValidationError:
            # No list: its reader says whether it should have been one.
            found[key] = msgspec.json.decode(value)
            continue
        found[key] = yield from _rows(key, rows)
    return found


def _rows(key: str, rows: list[msgspec.Raw]) -> Steps[list[object]]:
    found: list[object] = []
    for row in rows:
        try:
            found.append(msgspec.json.decode(row))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            place = f"{key}[{len(found)}]"
            raise OperatorError(f"definitions: {place}: {error}; nothing was imported") from error
        yield 0.0
    return found
