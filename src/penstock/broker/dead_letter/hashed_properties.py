"""The properties that consistent hash exchanges look at, put among the headers for a route.

They stand under names that `routing/consistent_hash` gives them, apart from those of headers.
"""

from typing import Final

from penstock.protocol.property_lookup import (
    CORRELATION_ID,
    MESSAGE_ID,
    PROPERTIES_OFFSET,
    TIMESTAMP,
    property_span,
)
from penstock.protocol.values import Table
from penstock.routing.consistent_hash import property_name

_PROPERTIES: Final = (
    ("correlation_id", CORRELATION_ID),
    ("message_id", MESSAGE_ID),
    ("timestamp", TIMESTAMP),
)


def with_properties(header: bytes, headers: Table) -> Table:
    """A copy of `headers` and the properties that `header`, a content header's payload, has.

    Their octets are enough, because they are only hashed. Raises: ConnectionFault 502.
    """
    found: Table = dict(headers)
    for name, flag in _PROPERTIES:
        key = property_name(name)
        found.pop(key, None)
        span = property_span(header, PROPERTIES_OFFSET, flag)
        if span is not None:
            found[key] = header[span[0] : span[1]]
    return found
