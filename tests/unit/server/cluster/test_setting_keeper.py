"""Settings at the broker of a leader: what its member says, and what it is told."""

import socket
from collections.abc import Iterator

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.pipe import CHANGED, KEPT, Kept, encoded, frame
from penstock.server.cluster.setting_keeper import PipeKeeper
from tests.unit.broker.peer import Bed

KEY = "rate.connection.messages"


class Ends:
    """A broker with its member at the other end of the pipe, whose words the test says."""

    def __init__(self) -> None:
        ours, self.member = socket.socketpair()
        self.bed = Bed()
        self.pipe = ChildPipe(ours)
        self.keeper = PipeKeeper(self.bed.broker.changes, self.pipe, self.bed.log)

    def says(self, kept: Kept) -> None:
        self.member.sendall(frame(KEPT, encoded(kept)))
        self.pipe.receive()

    def value(self) -> str:
        return self.bed.broker.settings.get(KEY).read()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.pipe.close()
    made.member.close()


def test_what_is_changed_is_told_and_waited_for(ends: Ends) -> None:
    ends.keeper.keep({KEY: "500/s"})
    assert ends.member.recv(1000) == frame(CHANGED, msgspec.json.encode({KEY: "500/s"}))
    assert ends.keeper.waits() is None
    ends.says(Kept(0, "no etcd"))
    assert ends.keeper.waits() == "no etcd"
    ends.says(Kept(1))
    assert ends.keeper.waits() == ""


def test_what_another_node_changed_is_in_force_unless_it_was_changed_here(ends: Ends) -> None:
    ends.says(Kept(0, "", {KEY: "500/s", "account.vhost.high:gone": "1MiB"}))
    ends.keeper.look()
    assert ends.value() == "500/s"
    said = [line for line in ends.bed.log.lines if "not in force here" in line]
    assert len(said) == 1 and "account.vhost.high:gone=1MiB" in said[0]
    ends.bed.broker.changes.change([(KEY, "600/s")], 0)
    ends.keeper.keep({KEY: "600/s"})
    ends.says(Kept(0, "", {KEY: "500/s"}))
    ends.keeper.look()
    assert ends.value() == "600/s", "whoever leads has the last word"


def test_a_configuration_that_is_read_again_changes_what_is_kept_only(ends: Ends) -> None:
    ends.keeper.follow([(KEY, "500/s")])
    assert ends.keeper.sent == 0
    ends.keeper.take_over({KEY: "600/s"})
    ends.keeper.follow([(KEY, "500/s"), ("rate.burst", "20ms")])
    assert ends.member.recv(1000) == frame(CHANGED, msgspec.json.encode({KEY: "500/s"}))


def test_one_more_than_may_be_kept_is_refused_in_words(ends: Ends) -> None:
    many = {f"rate.user.messages:{number}": "1/s" for number in range(KEPT_SETTINGS.default)}
    ends.keeper.keep(many)
    with pytest.raises(OperatorError, match="it is done, but 2048 settings are kept already"):
        ends.keeper.keep({KEY: "500/s"})
    assert ends.keeper.sent == 1
