"""A reader group that holds the publishers of its stream, in words: how far behind, since when."""

from typing import Final

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, called, duration, size

POSITION: Final = "position"
LAG_MESSAGES: Final = "lag_messages"
LAG_BYTES: Final = "lag_bytes"
LAG_MESSAGES_MAX: Final = "lag_messages_max"
LAG_BYTES_MAX: Final = "lag_bytes_max"
STILL_NS: Final = "still_ns"
LONG_NS: Final = 60_000_000_000


def lag_detail(window: ActorWindow) -> str:
    """How far behind a group is, of how much it may be, and when it last moved."""
    numbers = window.numbers
    lag = f"{amount(numbers.get(LAG_MESSAGES, 0.0))} messages behind"
    if numbers.get(LAG_MESSAGES_MAX, 0.0) > 0:
        lag += f" of {amount(numbers[LAG_MESSAGES_MAX])}"
    lag += f", {size(numbers.get(LAG_BYTES, 0.0))}"
    if numbers.get(LAG_BYTES_MAX, 0.0) > 0:
        lag += f" of {size(numbers[LAG_BYTES_MAX])}"
    still_ns = round(numbers.get(STILL_NS, 0.0))
    return f"{lag}; at offset {amount(numbers.get(POSITION, 0.0))} for {duration(still_ns)}"


def about_lag(window: ActorWindow | None, root: str) -> tuple[str, ...]:
    """What to do about a group that is behind."""
    who = called(root)
    faster = (
        f"let {who} read faster, or raise how far behind it may be: its own max_lag and the "
        "stream's x-max-lag-messages, x-max-lag-bytes"
    )
    if window is None or window.numbers.get(STILL_NS, 0.0) < LONG_NS:
        return (faster,)
    return (
        f"start the query of {who} again, it has not moved for a while; if it never comes back, "
        "end the group with stream.group.remove",
        faster,
    )
