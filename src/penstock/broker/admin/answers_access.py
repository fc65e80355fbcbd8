"""What commands show of virtual hosts, users and permissions; see answers."""

from msgspec import Struct


class VhostRow(Struct, frozen=True):
    """A virtual host. messages: in its queues, ready and unacknowledged; is_configured: named by
    the configuration."""

    name: str
    queues: int
    messages: int
    connections: int
    limits: dict[str, int]
    is_configured: bool
    messages_unacknowledged: int = 0


class VhostListing(Struct, frozen=True):
    """Virtual hosts, by name."""

    vhosts: list[VhostRow]
    total: int = 0
    next: str = ""


class UserRow(Struct, frozen=True):
    """A user, with its limits, and how many connections it has. is_configured: named by the
    configuration; hashing: how the password is kept, "" as it is."""

    name: str
    tags: list[str]
    limits: dict[str, int]
    connections: int
    is_configured: bool
    hashing: str


class UserListing(Struct, frozen=True):
    """Users, by name."""

    users: list[UserRow]
    total: int = 0
    next: str = ""


class PermissionRow(Struct, frozen=True):
    """Patterns of a user in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(Struct, frozen=True):
    """Patterns of a user for routing keys of an exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class PermissionListing(Struct, frozen=True):
    """What is in force; those for topics come behind the others."""

    permissions: list[PermissionRow]
    topic_permissions: list[TopicPermissionRow]
    total: int = 0
    next: str = ""
