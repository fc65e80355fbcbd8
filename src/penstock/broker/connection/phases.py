"""How far a connection is: the table that Connection.move goes by. COMPILED.

Numbers, because every message asks whether its connection is closing. What happens while a
connection negotiates has a table of its own: protocol/handshake.
"""

from collections.abc import Mapping
from typing import Final

PHASE_HEADER: Final = 0
PHASE_NEGOTIATING: Final = 1
PHASE_OPEN: Final = 2
PHASE_CLOSING: Final = 3
PHASE_CLOSED: Final = 4
PHASE_NAMES: Final = ("header", "negotiating", "open", "closing", "closed")

GREETED: Final = "the protocol header is that of AMQP 0-9-1"
ENTERED: Final = "connection.open names a virtual host that takes it"
ENDS: Final = "either side closes, or the peer is refused or lost"
PUT_AWAY: Final = "its channels are closed and its output has ended"

TRANSITIONS: Final[Mapping[tuple[int, str], int]] = {
    (PHASE_HEADER, GREETED): PHASE_NEGOTIATING,
    (PHASE_HEADER, ENDS): PHASE_CLOSING,
    (PHASE_HEADER, PUT_AWAY): PHASE_CLOSED,
    (PHASE_NEGOTIATING, ENTERED): PHASE_OPEN,
    (PHASE_NEGOTIATING, ENDS): PHASE_CLOSING,
    (PHASE_NEGOTIATING, PUT_AWAY): PHASE_CLOSED,
    (PHASE_OPEN, ENDS): PHASE_CLOSING,
    (PHASE_OPEN, PUT_AWAY): PHASE_CLOSED,
    # Both sides may close at once, and the socket may end meanwhile.
    (PHASE_CLOSING, ENDS): PHASE_CLOSING,
    (PHASE_CLOSING, PUT_AWAY): PHASE_CLOSED,
}
