"""What the nodes of a cluster agree on in etcd when each has several workers: how many, and which
of them has which virtual host. One key, which is changed by compare-and-swap."""

from typing import Final

import msgspec

from penstock.base.errors import OperatorError

AGREED: Final = "workers"
"""Its name below the cluster's prefix."""


class Agreed(msgspec.Struct):
    """cores: workers of each node; vhosts: which of them has which; is_spread: leaders are where an
    operator wants them, and none is moved without one any more."""

    cores: int
    vhosts: dict[str, int] = msgspec.field(default_factory=dict)
    is_spread: bool = True


def read_agreed(value: bytes) -> Agreed:
    """Raises: OperatorError."""
    try:
        return msgspec.json.decode(value, type=Agreed)
    except msgspec.DecodeError as fault:
        raise OperatorError(
            f"what etcd has of the cluster's workers cannot be read ({fault}): another version, or "
            "something else has written it; nothing is changed"
        ) from fault


def cores_fault(agreed: Agreed, cores: int) -> str:
    """Why a node with so many workers is none of this cluster, "" if it may be."""
    if agreed.cores == cores:
        return ""
    own = f"--cores {cores}" if cores > 1 else "a node without --cores"
    return (
        f"{own}: the nodes of this cluster have {agreed.cores} workers each, a log for each of "
        f"them; start it with --cores {agreed.cores}"
    )
