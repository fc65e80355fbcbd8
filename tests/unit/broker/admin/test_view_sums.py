"""Pages of users, virtual hosts and the node are summed up in steps, and come out the same."""

from penstock.broker.admin.view_memory import STEP_ACTORS, ViewMemory
from penstock.broker.admin.views import STEP_PAGES, actor_snapshots, snapshot_steps
from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed

ENDED = 3 * STEP_PAGES


def test_connections_that_ended_are_added_in_steps() -> None:
    bed = Bed()
    peer = bed.connect("last")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for number in range(ENDED):
        gone = bed.connect(f"gone-{number}")
        gone.publish("q", b"x" * 100)
        gone.hang_up()
    peer.publish("q", b"y" * 50)
    found = list(snapshot_steps(bed.broker))
    assert found.count(None) == ENDED // STEP_PAGES
    by_actor = {one.actor: one for one in found if one is not None}
    stored = float(bed.broker.vhosts["/"].queues["q"].messages.bytes_ready)
    own = by_actor["conn:last"].numbers["stored_bytes"]
    assert 0 < own < stored
    for page in ("user:guest@/", "vhost:/", "node"):
        assert by_actor[page].numbers["stored_messages"] == ENDED + 1
        assert by_actor[page].numbers["stored_bytes"] == stored
    assert by_actor["user:guest@/"].numbers["ended_bytes"] == stored - own
    assert by_actor["node"].numbers == actor_snapshots(bed.broker)["node"].numbers


def test_who_is_gone_is_forgotten_in_steps() -> None:
    bed = Bed()
    peers = [bed.connect(f"p{number}") for number in range(2 * STEP_ACTORS)]
    memory = ViewMemory()
    list(snapshot_steps(bed.broker, memory))
    for peer in peers:
        peer.hang_up()
    memory.begin_round()
    assert sum(1 for _ in memory.forgetting()) == 2
    assert memory.recall("conn:p0", ()) is None
