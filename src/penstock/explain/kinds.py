"""What `why` can be asked for, in a file of its own: commands know these words alone."""

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "connection": "conn",
    "channel": "chan",
    "queue": "queue",
    "consumer": "consumer",
    "store": "store",
}
"""What can be asked for by name, and the prefix of its actors' ids."""
UNNAMED: Final = ("publish", "memory", "not")
"""Questions about the whole broker."""
WHY_KINDS: Final = (*KINDS, *UNNAMED)
"""All there is."""
