"""What the control socket answers about definitions: all of them, or adding some.

One request is {"op": "definitions", "do": "export"}, or {"op": "definitions", "do": "import",
"definitions": {...}, "vhost": ""}; see broker/admin/definitions_import. Both go in steps, about
50 µs for each queue or binding, and an import is answered when the disk has it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

import penstock
from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_export import exporting
from penstock.broker.admin.definitions_import import importing
from penstock.broker.broker import Broker

REST_S: Final = 0.01
DISK_LOOKS: Final = 3000
"""How often to look whether the disk has an import, REST_S apart."""


class DefinitionQuestions:
    """broker: its present; run_soon: lets it work on what changed rules have set free."""

    def __init__(self, broker: Broker, run_soon: Callable[[], None]) -> None:
        self.broker = broker
        self.run_soon = run_soon
        self.is_importing = False

    def answer(self, request: dict[str, object]) -> Steps[dict[str, object]]:
        """Raises: OperatorError for a question it does not know, or definitions with a fault."""
        do = request.get("do", "export")
        if do == "export":
            return self._export()
        if do == "import":
            return self._import(request)
        raise OperatorError(f"unknown question 'definitions {do}'; one of: export, import")

    def _export(self) -> Steps[dict[str, object]]:
        found, notes = yield from exporting(self.broker, penstock.__version__)
        return {"definitions": found, "notes": notes}

    def _import(self, request: dict[str, object]) -> Steps[dict[str, object]]:
        vhost = str(request.get("vhost", ""))
        if vhost != "" and vhost not in self.broker.vhosts:
            known = ", ".join(sorted(self.broker.vhosts))
            raise OperatorError(f"no vhost '{vhost}'; one of: {known}")
        if self.is_importing:
            raise OperatorError("another import is under way; try again when it has ended")
        self.is_importing = True
        try:
            definitions = yield from _read(request.get("definitions"))
            done = yield from importing(self.broker, definitions, vhost)
            self.run_soon()
            notes = list(done.notes)
            if not (yield from self._reach_disk()):
                notes.append("the disk does not have all of it yet; see the broker's log")
            return {"imported": dict(done.counts), "notes": notes}
        finally:
            self.is_importing = False

    def _reach_disk(self) -> Steps[bool]:
        """Whether the disk has what was changed up to now, after a while."""
        catalogue = self.broker.catalogue
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
