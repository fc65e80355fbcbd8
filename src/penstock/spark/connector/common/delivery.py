"""How often a row of the sink arrives: the option `delivery`, and those that go with it.

at-least-once: a repeated task publishes again. exactly-once: a task stages its rows, and the driver
commits a batch as one (docs/transactions.md). dedup: at-least-once with a key for each row, for
exchanges and queues that drop what they have had (x-deduplication-header).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CONNECTOR_STAGED_BYTES,
    TRANSACTION_BYTES,
    TRANSACTION_TTL_MS,
)
from penstock.spark.connector.common.option_values import Option, Values

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
DEDUP: Final = "dedup"
APP_BYTES_MOST: Final = 200
DELIVERY_OPTIONS: Final = (
    Option("delivery", "at-least-once; exactly-once (of Penstock: a batch is staged, and committed "
           "as one); dedup (at-least-once, with a key for exchanges and queues that drop what they "
           "have had)", AT_LEAST_ONCE),
    Option("appId", "exactly-once, dedup: the name under which batches are counted; one query, one "
           "name", "the query's id"),
    Option("maxStagedBytes", "exactly-once: what a task may stage, with 130 bytes more a row",
           "16m"),
    Option("stagedTimeout", "exactly-once: how long staged rows wait for their commit", "10m"),
)  # fmt: skip
_FITS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "appId": (EXACTLY_ONCE, DEDUP),
        "maxStagedBytes": (EXACTLY_ONCE,),
        "stagedTimeout": (EXACTLY_ONCE,),
    }
)


@dataclass(frozen=True, slots=True)
class DeliveryGuarantee:
    """kind: one of the three; app_id: "" for the query's id; staged_bytes, staged_ms: what a task's
    transaction reserves, and how long it lives."""

    kind: str
    app_id: str
    staged_bytes: int
    staged_ms: int


def parse_delivery(values: Values) -> DeliveryGuarantee:
    """Raises: OperatorError for an option of another delivery, which would be ignored."""
    kind = values.choice("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE, DEDUP), AT_LEAST_ONCE)
    for name, fitting in _FITS.items():
        if values.has(name) and kind not in fitting:
            raise OperatorError(
                f"option {name} is for delivery={' or '.join(fitting)}, and this is delivery={kind}"
            )
    app_id = values.text("appId")
    if len(app_id.encode()) > APP_BYTES_MOST:
        raise OperatorError(f"option appId is longer than the {APP_BYTES_MOST} bytes it may have")
    return DeliveryGuarantee(
        kind,
        app_id,
        values.size_bytes(
            "maxStagedBytes", TRANSACTION_BYTES.lowest, CONNECTOR_STAGED_BYTES.default
        ),
        values.time_ms(
            "stagedTimeout",
            TRANSACTION_TTL_MS.lowest,
            TRANSACTION_TTL_MS.highest,
            TRANSACTION_TTL_MS.default,
        ),
    )
