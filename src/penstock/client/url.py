"""The address of a broker: `amqp://user:password@host:port/vhost?query` taken apart.

Rules of the RabbitMQ URI specification: every part may be absent and then has its default; the
virtual host is one percent-encoded path segment, so `amqp://h` means `/` (the default), while
`amqp://h/` means the virtual host with the empty name and `amqp://h/%2f` means `/`. One addition:
`amqp://h//`, as Celery and kombu write it, is read as `/` too.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock.base.errors import OperatorError

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671}
DIGITS_MAX: Final = 20
"""Of a number; Python refuses to read some thousands in words of its own."""
# Query parameter: (field of BrokerUrl, lowest, highest).
NUMBERS: Final = {
    "heartbeat": ("heartbeat_s", 0, 65_535),
    "connection_timeout": ("connection_timeout_ms", 1, 86_400_000),
    "channel_max": ("channels_max", 0, 65_535),
    "frame_max": ("frame_bytes_max", 0, 2**31 - 1),
}

VHOST_BYTES_MAX: Final = 255
"""A short string of AMQP."""


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """Where and as whom to connect; the password is kept out of repr.

    heartbeat_s: seconds, 0 asks for none, None leaves the choice to the broker;
    connection_timeout_ms: milliseconds, from the first packet until the connection is open;
    channels_max, frame_bytes_max: what this side asks for at most, 0 for no limit of its own.
    """

    host: str = "localhost"
    port: int = 5672
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    tls: bool = False
    heartbeat_s: int | None = None
    connection_timeout_ms: int = 10_000
    channels_max: int = 0
    frame_bytes_max: int = 0

    def address(self) -> str:
        """`host:port` for people, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """The address without its password: fit for logs."""
        scheme = "amqps" if self.tls else "amqp"
        user = quote(self.user, safe="")
        return f"{scheme}://{user}@{self.address()}/{quote(self.vhost, safe='')}"


def parse_url(text: str) -> BrokerUrl:
    """Take an AMQP address apart.

    Raises: OperatorError naming the part that is wrong and what is expected there.
    Source: RabbitMQ URI specification, and its page on query parameters.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # Python's own sentence quotes what stands behind the first colon: a piece of a password
        # that has a '/' in it.
        raise _not_an_address(text) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise OperatorError(
            f"{_shown(text)} is not an AMQP address: expected amqp://host:port/vhost or amqps://…"
        )
    if parts.fragment or "#" in text:
        raise OperatorError(f"{_shown(text)}: a '#' must be written %23")
    if "@" in parts.query:
        # A piece of a password with a '?' in it.
        raise _not_an_address(text)
    host = parts.netloc.rpartition("@")[2]
    numbers = _numbers(text, parts.query)
    vhost = _decoded(text, parts.path[1:]) if parts.path else "/"
    size = len(vhost.encode())
    if size > VHOST_BYTES_MAX:
        raise OperatorError(
            f"{_shown(text)}: the virtual host's name has {size} bytes, and may have "
            f"{VHOST_BYTES_MAX}"
        )
    return BrokerUrl(
        host=_decoded(text, _host(host)) or "localhost",
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        user="guest" if parts.username is None else _decoded(text, parts.username),
        password="guest" if parts.password is None else _decoded(text, parts.password),
        vhost=vhost,
        tls=parts.scheme == "amqps",
        heartbeat_s=numbers.get("heartbeat_s"),
        connection_timeout_ms=numbers.get("connection_timeout_ms", 10_000),
        channels_max=numbers.get("channels_max", 0),
        frame_bytes_max=numbers.get("frame_bytes_max", 0),
    )


def _host(authority: str) -> str:
    """The host as written: `urlsplit` would lower its case, and RabbitMQ does not."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def _numbers(text: str, query: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in NUMBERS:
            known = ", ".join(sorted(NUMBERS))
            raise OperatorError(f"{_shown(text)}: unknown parameter {name!r}; known: {known}")
        field, lowest, highest = NUMBERS[name]
        is_number = value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX
        if not (is_number and lowest <= int(value) <= highest):
            raise OperatorError(
                f"{_shown(text)}: {name} is {value!r}, expected a number {lowest}..{highest}"
            )
        numbers[field] = int(value)
    return numbers


def _decoded(text: str, part: str) -> str:
    try:
        found = unquote(part, errors="strict")
        # A terminal's bytes that are no UTF-8 come as half characters.
        found.encode()
    except UnicodeError as error:
        raise OperatorError(f"{_shown(text)}: its bytes are not UTF-8") from error
    return found


def _not_an_address(text: str) -> OperatorError:
    return OperatorError(
        f"{_shown(text)} is not an address: behind the host a port 0..65535 may follow, and an "
        "IPv6 host stands in brackets; in a user or password / ? # [ ] @ : % are written "
        "%2F %3F %23 %5B %5D %40 %3A %25"
    )


def _shown(text: str) -> str:
    """The address with its password hidden, however broken the rest of it is."""
    head, at, tail = text.rpartition("@")
    if not at:
        return repr(text)
    scheme, slashes, credentials = head.partition("://")
    user, colon, _ = credentials.partition(":")
    return repr(f"{scheme}{slashes}{user}{colon and ':***'}@{tail}")
