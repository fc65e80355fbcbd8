"""The bounds of what is on disk and of the control socket; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

CONTROL_CLIENTS: Final = Limit(
    "control_clients",
    "connections to the control socket",
    16,
    1,
    1024,
    "server/control/control_socket",
    "the socket is closed at once",
)
CONTROL_REQUEST_BYTES: Final = Limit(
    "control_request_bytes",
    "bytes of one request on the control socket",
    33_554_432,
    65_536,
    1_073_741_824,
    "server/control/control_socket",
    "the socket is closed; `definitions import` says so before it sends anything",
)
DISK_RESERVE_BYTES: Final = Limit(
    "disk_reserve_bytes",
    "bytes",
    0,
    0,
    1_099_511_627_776,
    "server/machine/reserve_file",
    "the disk alarm is set and the reserve given up, so that the broker itself can still write",
)
VHOSTS_MAX: Final = Limit(
    "vhosts_max",
    "virtual hosts",
    10_000,
    1,
    1_000_000,
    "broker/admin/definitions",
    "definitions that would make more are refused as a whole",
)
USERS_MAX: Final = Limit(
    "users_max",
    "users",
    10_000,
    1,
    1_000_000,
    "broker/admin/definitions",
    "definitions that would make more are refused as a whole",
)
CATALOGUE_CHANGES: Final = Limit(
    "catalogue_changes",
    "changes to what is durable that wait for the disk",
    100_000,
    1,
    10_000_000,
    "broker/vhost/kept_catalogue",
    "406 PRECONDITION_FAILED refuses what is to be kept and closes the channel; what is deleted "
    "is still taken",
)
