"""How a process that is one broker, or one node of a cluster, is set up when it is ready."""

import gc
import sys
from typing import Final

COLLECTIONS: Final = (10_000, 5, 20_000)
"""How many new objects the collector looks at in one go, 50,000 at most, which takes some
milliseconds; at all of them as seldom as can be."""
SWITCH_S: Final = 0.0005
"""How long one thread may hold up another that has come back from the disk."""


def settle_process() -> None:
    """For a process of its own, and not for one that a node lives in. What is alive now stays:
    collections need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_S)
