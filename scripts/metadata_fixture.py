"""Writes tests/fixtures/metadata-version-N.sqlite for the format of today, once, when it is new.

python -m scripts.metadata_fixture
"""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    CatalogueChange,
    ExchangeRow,
    ParameterRow,
    Row,
    StoredQueue,
    UserRow,
    VhostRow,
    arguments_bytes,
    identity_bytes,
)
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table
from penstock.server.disk.metadata_db import FORMAT, MetadataDb

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"


def rows() -> list[Row]:
    """One or more of every kind, with names and values that are easily spoilt."""
    arguments: Table = {
        "x-max-length": 10,
        "text": "ü\x00",
        "octets": b"\xff\xfe",
        "array": [True, None, 1.5, -1, 1 << 40, Decimal("1.25"), Timestamp(7), bytearray(b"x")],
        "table": {"b": {}, "a": []},
    }
    data, identity = arguments_bytes(arguments), identity_bytes(arguments)
    return [
        VhostRow("tenant"),
        UserRow("app", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "sha256", "a,b"),
        ExchangeRow("/", "e", "topic", True, False, data),
        ExchangeRow("tenant", "e", "headers", False, True),
        StoredQueue(3, "/", "q", False, data),
        StoredQueue(7, "tenant", "ü\x00'\"", True),
        BindingRow("/", "e", False, "q", "a.#", identity, data),
        BindingRow("/", "e", False, "q", "a.#", b""),
        BindingRow("tenant", "amq.topic", True, "e", "", b""),
        ParameterRow("/", "policy", "p", '{"pattern":"^q"}'),
        ParameterRow("", "user-limits", "app", '{"max-channels":1}'),
    ]


def main() -> int:
    path = FIXTURES / f"metadata-version-{FORMAT}.sqlite"
    if path.exists():
        print(f"{path} is there already; a released format does not change", file=sys.stderr)
        return 1
    db = MetadataDb(path)
    db.apply(0, tuple(CatalogueChange(True, row) for row in rows()))
    db.close()
    path.chmod(0o644)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
