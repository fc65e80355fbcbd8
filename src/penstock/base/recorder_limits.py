"""The bounds of the flight recorder; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

RECORDER_EVENTS: Final = Limit(
    "recorder_events",
    "events",
    65_536,
    0,
    16_777_216,
    "telemetry/recorder",
    "the oldest event is dropped and counted; 0 records nothing",
)
RECORD_BYTES: Final = Limit(
    "record_bytes",
    "bytes of one saved flight record, compressed",
    67_108_864,
    1_048_576,
    1_073_741_824,
    "server/recorder/service",
    "what does not fit is left out, the oldest events first, and counted in the record",
)
INCIDENTS_KEPT: Final = Limit(
    "incidents_kept",
    "flight records frozen by an alarm or by throttling",
    2,
    0,
    16,
    "server/recorder/service",
    "the oldest is dropped",
)
