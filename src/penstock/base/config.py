"""The broker's settings: one frozen tree, parsed once and handed down; safe on a laptop."""

from dataclasses import dataclass, field

from penstock.base import limits


@dataclass(frozen=True, slots=True)
class UserConfig:
    """One user. `is_loopback_only`: refused from anywhere but this machine (guest)."""

    name: str
    password: str = field(repr=False)
    is_loopback_only: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """Units are in the names; 0 for port means any free port.

    profile: flow profile name; queue_depth_bytes: depth mark of one queue, 0 for a fifth of
    memory_high_bytes; memory_high_bytes: memory alarm above it, 0 for 40 % of the machine or its
    cgroup; events_dir: where flow event files are written, "" for nowhere.
    """

    host: str = "127.0.0.1"
    port: int = 5672
    profile: str = "penstock"
    vhosts: tuple[str, ...] = ("/",)
    users: tuple[UserConfig, ...] = (UserConfig("guest", "guest", True, ("administrator",)),)
    product: str = "Penstock"
    product_version: str = ""
    frame_bytes_max: int = limits.FRAME_BYTES_MAX.default
    channels_max: int = limits.CHANNELS_MAX.default
    heartbeat_s: int = limits.HEARTBEAT_S.default
    handshake_ms: int = limits.HANDSHAKE_MS.default
    body_bytes_max: int = limits.BODY_BYTES_MAX.default
    connections_max: int = limits.CONNECTIONS_MAX.default
    socket_output_high_bytes: int = limits.SOCKET_OUTPUT_HIGH_BYTES.default
    turn_messages: int = limits.TURN_MESSAGES.default
    recorder_events: int = limits.RECORDER_EVENTS.default
    queue_depth_bytes: int = 0
    memory_high_bytes: int = 0
    events_dir: str = ""
    control_socket: str = ""
