"""The line that says for whom a forwarded connection is: version 1 of HAProxy's PROXY protocol.

    PROXY TCP4 192.0.2.7 127.0.0.1 40312 0\r\n

Only the private socket between a member and its broker takes it, see proxied_listener: at a public
port anybody could call himself 127.0.0.1.
Source: HAProxy, The PROXY protocol, section 2.1.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

HEADER_BYTES: Final = 107
"""The longest that there is, its end included."""
END: Final = b"\r\n"


class HeaderFault(Exception):
    """What came is no such line."""


def header_of(host: str, port: int) -> bytes:
    """The line for a client at `host`, an address. Raises: ValueError if it is none."""
    address = ip_address(host.partition("%")[0])
    family, own = ("TCP6", "::1") if isinstance(address, IPv6Address) else ("TCP4", "127.0.0.1")
    return f"PROXY {family} {address} {own} {port} 0\r\n".encode()


def read_header(data: bytes) -> tuple[str, int, int] | None:
    """Host, port and length of the line at the beginning of `data`; None: it is not whole yet.
    Raises: HeaderFault."""
    end = data.find(END, 0, HEADER_BYTES)
    if end < 0:
        if len(data) >= HEADER_BYTES or not b"PROXY ".startswith(data[:6]):
            raise HeaderFault
        return None
    words = data[:end].split(b" ")
    if len(words) != 6 or words[0] != b"PROXY" or words[1] not in (b"TCP4", b"TCP6"):
        raise HeaderFault
    try:
        host = ip_address(words[2].decode("ascii"))
    except ValueError as fault:
        raise HeaderFault from fault
    if not words[4].isdigit() or not 0 <= int(words[4]) <= 65_535:
        raise HeaderFault
    return str(host), int(words[4]), end + len(END)
