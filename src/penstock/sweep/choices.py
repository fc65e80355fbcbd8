"""What a sweep can be asked for, in a file of its own: the command's options know these words
alone."""

from typing import Final

EVENTS: Final = "events"
FLUID: Final = "fluid"
ENGINES: Final = (EVENTS, FLUID)
"""The real broker on a virtual clock, and rates that flow."""
BOTH: Final = "both"
DELTA: Final = "delta"
PARQUET: Final = "parquet"
AUTO: Final = "auto"
DEFAULT_CONNECTIONS: Final = 8
