"""The broker in memory of the unit tests, for the scenarios that scripted peers play."""

from tests.unit.broker.conftest import bed, peer

__all__ = ["bed", "peer"]
