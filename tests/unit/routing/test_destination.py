"""Destinations are told apart by identity, never by name."""

from penstock.routing.destination import Destination


def test_two_destinations_of_one_name_differ() -> None:
    first, second = Destination("q"), Destination("q")
    assert first != second
    assert len({first, second}) == 2
    assert first == first


def test_a_subclass_keeps_the_name_and_may_add_slots() -> None:
    class Parcel(Destination):
        __slots__ = ("depth",)

        def __init__(self, name: str, depth: int) -> None:
            super().__init__(name)
            self.depth = depth

    parcel = Parcel("q", 3)
    assert (parcel.name, parcel.depth) == ("q", 3)
