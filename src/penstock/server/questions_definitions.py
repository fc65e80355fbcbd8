"""What the control socket answers about definitions: all of them, or adding some.

One request is {"op": "definitions", "do": "export"}, or {"op": "definitions", "do": "import",
"definitions": {...}, "vhost": ""}; see broker/definitions. Both take the loop for as long as they
last, about 50 µs for each queue or binding.
"""

from collections.abc import Callable

import penstock
from penstock.base.errors import OperatorError
from penstock.broker.broker import Broker
from penstock.broker.definitions import export_definitions, import_definitions


class DefinitionQuestions:
    """broker: its present; run_soon: lets it work on what changed rules have set free."""

    def __init__(self, broker: Broker, run_soon: Callable[[], None]) -> None:
        self.broker = broker
        self.run_soon = run_soon

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        """Raises: OperatorError for a question it does not know, or definitions with a fault."""
        do = request.get("do", "export")
        if do == "export":
            found, notes = export_definitions(self.broker, penstock.__version__)
            return {"definitions": found, "notes": notes}
        if do == "import":
            definitions = request.get("definitions")
            if not isinstance(definitions, dict):
                raise OperatorError("definitions import needs the definitions as an object")
            vhost = str(request.get("vhost", ""))
            if vhost != "" and vhost not in self.broker.vhosts:
                known = ", ".join(sorted(self.broker.vhosts))
                raise OperatorError(f"no vhost '{vhost}'; one of: {known}")
            done = import_definitions(self.broker, definitions, vhost)
            self.run_soon()
            return {"imported": dict(done.counts), "notes": list(done.notes)}
        raise OperatorError(f"unknown question 'definitions {do}'; one of: export, import")
