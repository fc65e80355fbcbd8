"""What the parent and one of its members say to each other: one JSON object a line.

to the member   Start; then Told, as often as something has changed; its end: stop in order
to the parent   Said: once when it listens, or why it does not; then whenever its shard has another
                leader, and once when it ends and is not to be started again
"""

import msgspec

from penstock.base.config import Config
from penstock.server.cluster.pipe import Places
from penstock.server.cluster.siblings import Lead
from penstock.server.workers.pipe import Ready


class Start(msgspec.Struct):
    """config: of the node; worker: its number, and that of its shard, of `count`; inherited:
    listening sockets, by name; receive: where connections come that other brokers of this node hand
    over to each worker, by number; send: where they are handed over; the rest: see Told."""

    config: Config
    worker: int
    count: int
    inherited: dict[str, int]
    receive: dict[int, int]
    send: dict[int, int]
    leads: dict[int, Lead]
    places: Places


class Told(msgspec.Struct):
    """leads: who leads each shard; places: which has which virtual host; covers: by which worker
    clients are taken that are handed over to one which stands still; config: to be put in force, as
    after SIGHUP. None: as before."""

    leads: dict[int, Lead] | None = None
    places: Places | None = None
    covers: dict[int, int] | None = None
    config: Config | None = None


class Said(Ready):
    """lead: of its shard, None where nothing is said of it; is_final: `fault` is why this node is
    none of the cluster, and starting it again changes nothing."""

    lead: Lead | None = None
    is_final: bool = False
