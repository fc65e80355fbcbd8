"""Where the last value of each key stands (x-last-value-key): a hook of a queue with rules.

It looks at ready messages: a newer one takes the place of the one whose key it has.
"""

from penstock.protocol.content import Message
from penstock.queues.entry import Entry, header_key, is_stub
from penstock.queues.rules import BY_ROUTING_KEY


class LastValues:
    """name: what keys are made of, a header's name or BY_ROUTING_KEY; by_key: ready entries."""

    __slots__ = ("by_key", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_key: dict[str, Entry] = {}

    def known(self, message: Message) -> Entry | None:
        """The entry that `message` would take over, because it is ready and has its key."""
        key = header_key(message, self.name)
        return self.by_key.get(key) if key != "" else None

    def name_entry(self, entry: Entry) -> None:
        """`entry` gets its key. That of a body on the disk is only known where it is the routing
        key."""
        is_known = self.name == BY_ROUTING_KEY or not is_stub(entry.message)
        entry.key = header_key(entry.message, self.name) if is_known else ""

    def entered(self, entry: Entry) -> None:
        """`entry` is ready and counts as the last value of its key, unless a newer one does."""
        if entry.key == "":
            return
        known = self.by_key.get(entry.key)
        if known is None or entry.is_newer(known):
            self.by_key[entry.key] = entry

    def left(self, entry: Entry) -> None:
        """`entry` is not ready any more."""
        if entry.key != "" and self.by_key.get(entry.key) is entry:
            del self.by_key[entry.key]
