"""broker/settings/parking: bounds and action of the parking lots, changed while they are in use."""

import pytest

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from tests.spec.stage import numbered
from tests.unit.broker.channel.test_parking import taken
from tests.unit.broker.channel.test_parking_disk import DiskStage
from tests.unit.broker.peer import Bed


@pytest.mark.parametrize("key", ["parked.bytes", "parked.node_bytes", "parked.disk_bytes"])
def test_a_larger_bound_lets_on_who_waits_and_a_smaller_one_takes_nothing_away(key: str) -> None:
    bed = DiskStage(lot_bytes=150_000)
    settings = bed.broker.settings
    bed.parking.bytes_max = 20_000
    if key == "parked.node_bytes":
        bed.broker.parking.lot_bytes_max = 1 << 40
        bed.broker.parking.bytes_max = 300_000
    hand = bed.publisher(2000)
    channel = bed.stage.channel(hand)
    before = int(bed.lot(hand).messages)
    assert channel.is_stalled and before < 1000
    old, new = settings.write(key, "4MiB")
    bed.run()
    assert not channel.is_stalled and bed.lot(hand).messages == 1998
    settings.write(key, old)
    hand.publish("q1", 1000)
    bed.run()
    assert channel.is_stalled and 1998 <= bed.lot(hand).messages < 2998 and new == "4MiB"
    bed.let_go()
    assert len(taken(bed.stage, "q1")) == 3000
    bed.check_empty()


def test_another_action_holds_for_connections_that_are_open() -> None:
    row = AlarmAction("stop", "/", "other")
    bed = Bed(queue_depth_bytes=500, parked_bytes=2000, parked_full_actions=(row,))
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    assert bed.broker.settings.write("parked.full", "nack") == ("stop", "nack")
    peer.publish("q", b"x" * 1000)
    peer.publish("q", *numbered(500))
    assert "nack" in peer.confirmed().values()


def test_what_makes_no_sense_is_refused() -> None:
    settings = Bed().broker.settings
    with pytest.raises(OperatorError, match=r"parked\.full.*unknown; one of: stop"):
        settings.write("parked.full", "drop")
    with pytest.raises(OperatorError, match=r"parked\.bytes=2TiB is not within 0\.\.1GiB"):
        settings.write("parked.bytes", "2TiB")
    assert settings.get("parked.disk_bytes").read() == "0"
    with pytest.raises(OperatorError, match="start the broker with a data directory"):
        settings.write("parked.disk_bytes", "1GiB")
