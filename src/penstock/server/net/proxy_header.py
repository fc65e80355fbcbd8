"""The lines that say for whom a forwarded connection is: version 1 of HAProxy's PROXY protocol, and
before it, of a client who came by TLS, what is known of him by that.

    TLS {"version":"TLSv1.3","cipher":"…","subject":"CN=app","user":"app"}\r\n
    PROXY TCP4 192.0.2.7 127.0.0.1 40312 0\r\n

Only the private socket between a member and its broker takes it, see proxied_listener: at a public
port anybody could call himself 127.0.0.1.
Source: HAProxy, The PROXY protocol, section 2.1.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

import msgspec

from penstock.broker.session.access import TlsPeer

LINE_BYTES: Final = 107
"""The longest PROXY line that there is, its end included."""
TLS_BYTES: Final = 16_384
"""Of the line before it."""
HEADER_BYTES: Final = LINE_BYTES + TLS_BYTES
END: Final = b"\r\n"
_TLS: Final = b"TLS "


class HeaderFault(Exception):
    """What came is no such line."""


class Header(NamedTuple):
    """host, port: of the client; tls: None without; length: of all of it, in bytes."""

    host: str
    port: int
    tls: TlsPeer | None
    length: int


def header_of(host: str, port: int, tls: TlsPeer | None = None) -> bytes:
    """The lines for a client at `host`, an address. Raises: ValueError if it is none, or what is
    known by TLS is too long."""
    address = ip_address(host.partition("%")[0])
    family, own = ("TCP6", "::1") if isinstance(address, IPv6Address) else ("TCP4", "127.0.0.1")
    line = f"PROXY {family} {address} {own} {port} 0\r\n".encode()
    if tls is None:
        return line
    known = _TLS + msgspec.json.encode(tls) + END
    if len(known) > TLS_BYTES:
        raise ValueError(f"the names in its certificate take {len(known)} bytes")
    return known + line


def read_header(data: bytes) -> Header | None:
    """What is at the beginning of `data`; None: it is not whole yet. Raises: HeaderFault."""
    if not data.startswith(_TLS):
        return None if _TLS.startswith(data) else _line(data, None, 0)
    end = data.find(END, 0, TLS_BYTES)
    if end < 0:
        if len(data) >= TLS_BYTES:
            raise HeaderFault
        return None
    try:
        tls = msgspec.json.decode(data[len(_TLS) : end], type=TlsPeer)
    except msgspec.DecodeError as fault:
        raise HeaderFault from fault
    if tls.is_operator:
        # Those come over the control socket.
        raise HeaderFault
    begin = end + len(END)
    return _line(data[begin : begin + LINE_BYTES], tls, begin)


def _line(data: bytes, tls: TlsPeer | None, begin: int) -> Header | None:
    """`data`: from the PROXY line on, which begins at `begin`."""
    end = data.find(END, 0, LINE_BYTES)
    if end < 0:
        if len(data) >= LINE_BYTES or not b"PROXY ".startswith(data[:6]):
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
    return Header(str(host), int(words[4]), tls, begin + end + len(END))
