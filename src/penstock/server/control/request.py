"""One question as it came over the control socket, with what it is answered from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from penstock.base.errors import OperatorError
from penstock.broker.admin.paging import PAGE_ROWS_MAX, Key, Pager
from penstock.broker.broker import Broker
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.flight import FlightHistory

Keyed = dict[str, object] | Struct


@dataclass(frozen=True, slots=True)
class Request:
    """fields: as they came; broker: its present; run_soon: lets it work on what an answer has set
    free; windows: of every actor over the last so many seconds; history: what they are made from.
    Everything raises OperatorError."""

    broker: Broker
    fields: Mapping[str, object]
    run_soon: Callable[[], None]
    windows: Callable[[float], Mapping[str, ActorWindow]]
    history: FlightHistory

    def text(self, key: str, default: str = "") -> str:
        return str(self.fields.get(key, default))

    def is_set(self, key: str) -> bool:
        return self.fields.get(key) is True

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """One of `known`, the first unless something else is asked for."""
        value = self.text(key, known[0])
        if value not in known:
            raise OperatorError(f"{key} '{value}' is unknown; one of: {', '.join(known)}")
        return value

    def limit(self) -> int:
        """How many rows are wanted."""
        limit = self.fields.get("limit", 50)
        if not isinstance(limit, int) or not 1 <= limit <= PAGE_ROWS_MAX:
            raise OperatorError(f"limit of {limit} rows: must be 1..{PAGE_ROWS_MAX}")
        return limit

    def pager(self, order: str = "name") -> Pager[Any]:
        """What the page is picked by that is wanted, of rows in this `order`."""
        return Pager(self.limit(), self.text("after"), order)

    def keyed(
        self,
        answer: Keyed,
        pager: Pager[Any],
        keys: list[Key] | None = None,
        shared: int = 0,
    ) -> Keyed:
        """The answer; for who asks several workers of a node also where its rows stand in the
        order. keys: places of those that are shown, None for all of the page; shared: how many
        rows of the listing all workers have alike."""
        if not self.is_set("with_keys"):
            return answer
        fields = answer if isinstance(answer, dict) else asdict(answer)
        places = pager.keys() if keys is None else keys
        return fields | {"keys": places, "order": pager.order, "shared": shared}

    def vhost(self) -> str:
        """A virtual host that there is, "" for all."""
        vhost = self.text("vhost")
        if vhost != "" and vhost not in self.broker.vhosts:
            known = ", ".join(sorted(self.broker.vhosts))
            raise OperatorError(f"no vhost '{vhost}'; one of: {known}")
        return vhost
