"""What a binding can point at: the base of exchanges and of all that queues. COMPILED.

Two destinations are the same only if they are the same object: a queue that was deleted and
declared again under its old name is another destination, and no old binding leads to it.
"""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Destination:
    """A named end of a binding. `name`: AMQP short string, unique among its own kind in a vhost.

    Compared and hashed by identity; subclasses must keep it so, because route results, bindings
    and seen-sets are dictionaries of destinations.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
