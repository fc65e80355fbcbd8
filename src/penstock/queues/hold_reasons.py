"""Why a consumer is given nothing just now. COMPILED."""

from typing import Final

REASON_NONE: Final = 0
REASON_PREFETCH: Final = 1
REASON_UNSENT: Final = 2
REASON_SOCKET: Final = 3
REASON_CHANNEL_FLOW: Final = 4
REASON_CHANNEL_PREFETCH: Final = 5
REASON_STANDBY: Final = 6
REASON_NAMES: Final = (
    "",
    "prefetch",
    "unsent",
    "socket",
    "client_flow",
    "channel prefetch",
    "standby",
)
