"""The families of faults."""

from penstock.base.errors import ChannelFault, ConnectionFault, OperatorError, PeerError


def test_a_peers_fault_carries_its_reply() -> None:
    fault = ChannelFault(404, "no queue 'q'", 50, 10)
    assert (fault.code, fault.text, fault.class_id, fault.method_id) == (
        404,
        "no queue 'q'",
        50,
        10,
    )
    assert str(fault) == "no queue 'q'"


def test_the_families_are_apart() -> None:
    assert issubclass(ChannelFault, PeerError) and issubclass(ConnectionFault, PeerError)
    assert not issubclass(ChannelFault, ConnectionFault)
    assert not issubclass(OperatorError, PeerError)
