"""Random declares, deletes and binds; restarts at any moment, clean or not: the same topology.

After a clean restart everything durable is as it was. After a crash it is what the first so many
changes say, as many as the disk had, and what a confirm may have waited for is among them.
"""

import tempfile
from pathlib import Path
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    CatalogueChange,
    ExchangeRow,
    StoredQueue,
    arguments_table,
)
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value
from penstock.routing.bindings import Binding
from penstock.routing.canonical import canonical
from penstock.routing.exchange import Exchange
from tests.unit.broker.peer import Peer
from tests.unit.server.durable_bed import DurableBed, Topology, topology

NAMES = st.sampled_from(["a", "b", "n\x00l"])
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, True])
KINDS = st.sampled_from(["direct", "fanout", "topic", "headers"])
LEAVES: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.builds(bytearray, st.binary(max_size=5)),
    st.builds(Timestamp, st.integers(0, (1 << 64) - 1)),
    st.decimals(0, 100, places=2),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
ARGUMENTS: st.SearchStrategy[Table] = st.dictionaries(
    st.sampled_from(["q-one", "q-two", "ü"]), VALUES, max_size=2
)


class CatalogueModel(RuleBasedStateMachine):
    """changes: all that were ever handed out, in order; the disk has a first part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.changes: list[CatalogueChange] = []
        self.mark = 0

    @initialize()
    def first_start(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.bed = DurableBed(Path(self.folder.name) / "m")
        self.written_before = len(self.changes)
        self.mark = 0
        self.peer: Peer = self.bed.connect()

    def teardown(self) -> None:
        self.bed.crash()
        self.folder.cleanup()

    # -- changing --------------------------------------------------------------------------------

    def say(self, method: m.Method) -> None:
        """A refusal closes the channel, which is opened again."""
        self.peer.say(1, method)
        heard = [one.method for one in self.peer.heard()]
        if any(isinstance(one, m.ChannelClose) for one in heard):
            self.peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
            self.peer.one(m.ChannelOpenOk)

    @rule(
        name=NAMES,
        durable=MOSTLY,
        auto_delete=RARELY,
        exclusive=RARELY,
        arguments=ARGUMENTS,
    )
    def declare_queue(
        self, name: str, durable: bool, auto_delete: bool, exclusive: bool, arguments: Table
    ) -> None:
        self.say(
            m.QueueDeclare(
                name,
                durable=durable,
                auto_delete=auto_delete,
                exclusive=exclusive,
                arguments=arguments,
            )
        )

    @rule(
        name=NAMES, kind=KINDS, flags=st.tuples(MOSTLY, st.booleans(), RARELY), arguments=ARGUMENTS
    )
    def declare_exchange(
        self, name: str, kind: str, flags: tuple[bool, bool, bool], arguments: Table
    ) -> None:
        durable, auto_delete, internal = flags
        self.say(
            m.ExchangeDeclare(
                name,
                kind,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
        )

    def queues(self) -> list[str]:
        return list(self.bed.broker.vhosts["/"].queues)

    def exchanges(self) -> list[str]:
        found = self.bed.broker.vhosts["/"].router.exchanges()
        declared = [one.name for one in found if one.name and not one.name.startswith("amq.")]
        return ["amq.topic", *declared]

    @precondition(lambda self: self.queues())
    @rule(data=st.data(), key=NAMES, arguments=ARGUMENTS)
    def bind_queue(self, data: st.DataObject, key: str, arguments: Table) -> None:
        queue = data.draw(st.sampled_from(self.queues()))
        source = data.draw(st.sampled_from(self.exchanges()))
        self.say(m.QueueBind(queue, source, key, arguments=arguments))

    @rule(data=st.data(), key=NAMES)
    def bind_exchange(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.exchanges()))
        destination = data.draw(st.sampled_from(self.exchanges()))
        self.say(m.ExchangeBind(destination, source, key))

    def bindings(self) -> list[tuple[Exchange, Binding]]:
        return [
            (exchange, one)
            for exchange in self.bed.broker.vhosts["/"].router.exchanges()
            if exchange.name != ""
            for one in exchange.bindings()
        ]

    @precondition(lambda self: self.bindings())
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        """One that is there, with its own arguments."""
        exchange, one = data.draw(st.sampled_from(self.bindings()))
        arguments = cast(Table, one.arguments)
        self.bed.broker.vhosts["/"].unbind(exchange, one.destination, one.routing_key, arguments)

    @precondition(lambda self: self.queues())
    @rule(data=st.data())
    def delete_queue(self, data: st.DataObject) -> None:
        self.say(m.QueueDelete(data.draw(st.sampled_from(self.queues()))))

    @precondition(lambda self: len(self.exchanges()) > 1)
    @rule(data=st.data())
    def delete_exchange(self, data: st.DataObject) -> None:
        self.say(m.ExchangeDelete(data.draw(st.sampled_from(self.exchanges()[1:]))))

    # -- the disk, and the end -------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def disk_works(self, count: int) -> None:
        self.take_changes()
        self.bed.disk.work(count)

    @rule()
    def somebody_waits_for_a_confirm(self) -> None:
        self.mark = self.bed.catalogue.hand_over()

    @rule()
    def restart(self) -> None:
        self.take_changes()
        self.peer.hang_up()
        before = topology(self.bed.broker)
        self.take_changes()
        self.bed.close()
        self.begin()
        assert topology(self.bed.broker) == before
        assert topology(self.bed.broker) == replayed(self.changes)

    @rule()
    def crash(self) -> None:
        self.take_changes()
        written = self.bed.catalogue.written
        confirmed = self.mark if self.bed.catalogue.has(self.mark) else 0
        self.bed.crash()
        del self.changes[self.written_before + written :]
        assert written >= confirmed
        self.begin()
        assert topology(self.bed.broker) == replayed(self.changes)

    def take_changes(self) -> None:
        """Note what was handed out since the last time; the catalogue forgets what is written."""
        catalogue = self.bed.catalogue
        assert not catalogue.is_full and catalogue.failure is None, "the disk is never full here"
        known = len(self.changes) - self.written_before - catalogue.written
        self.changes.extend(catalogue.waiting[known:])


def replayed(changes: list[CatalogueChange]) -> Topology:
    """What `changes` come to, told as the rows say it."""
    exchanges: dict[tuple[str, str], ExchangeRow] = {}
    queues: dict[int, StoredQueue] = {}
    bindings: dict[tuple[object, ...], BindingRow] = {}
    for change in changes:
        row = change.row
        if isinstance(row, StoredQueue):
            queues[row.queue_id] = row
            if not change.is_kept:
                del queues[row.queue_id]
                for key, one in list(bindings.items()):
                    if not one.is_to_exchange and one.destination == row.name:
                        del bindings[key]
        elif isinstance(row, ExchangeRow):
            exchanges[row.vhost, row.name] = row
            if not change.is_kept:
                del exchanges[row.vhost, row.name]
                for key, one in list(bindings.items()):
                    if row.name == one.source or (
                        one.is_to_exchange and one.destination == row.name
                    ):
                        del bindings[key]
        else:
            assert isinstance(row, BindingRow)
            key = _key(row)
            bindings[key] = row
            if not change.is_kept:
                del bindings[key]
    return {
        "exchanges": {
            (
                row.vhost,
                row.name,
                row.kind,
                row.is_auto_delete,
                row.is_internal,
                canonical(arguments_table(row.arguments)),
            )
            for row in exchanges.values()
        },
        "queues": {
            (
                row.vhost,
                row.name,
                row.queue_id,
                row.is_auto_delete,
                canonical(arguments_table(row.arguments)),
            )
            for row in queues.values()
        },
        "bindings": set(bindings),
    }


def _key(row: BindingRow) -> tuple[object, ...]:
    return (
        row.vhost,
        row.source,
        "e" if row.is_to_exchange else "q",
        row.destination,
        row.routing_key,
        row.identity.decode("utf-8", "surrogateescape"),
    )


TestCatalogueModel = CatalogueModel.TestCase
TestCatalogueModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
