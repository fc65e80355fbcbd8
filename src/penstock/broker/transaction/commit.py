"""One commit of staged transactions on its way."""

from mypy_extensions import i64

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.transaction.commit_line import CommitLine
from penstock.broker.transaction.commit_routes import Asked
from penstock.broker.transaction.commit_streams import StreamCommit
from penstock.broker.transaction.stages import StagedTransaction
from penstock.protocol.content import Message


class CommitManager:
    """Who carries commits out. Nominal base; see broker/transaction/transaction_manager."""

    __slots__ = ()

    def complete(self, commit: "Commit") -> None:
        """The disk has all of it."""
        raise NotImplementedError

    def finish(self, commit: "Commit") -> None:
        """Its streams have what they were to get."""
        raise NotImplementedError


class Commit(StreamCommit):
    """shared: what each queue gets, once it is routed; line: where it waits for them; kept: what
    the catalogue has to have, so that a crash leaves them, -1 for not known yet."""

    __slots__ = (
        "app",
        "asked",
        "batch",
        "desk",
        "keepers",
        "kept",
        "line",
        "mark",
        "shared",
        "stages",
        "vhost",
    )

    def __init__(
        self,
        desk: CommitManager,
        asked: Asked,
        app: str,
        batch: int,
        stages: list[StagedTransaction],
    ) -> None:
        super().__init__()
        self.desk = desk
        self.asked = asked
        self.vhost = asked.vhost.name
        self.app = app
        self.batch = batch
        self.stages = stages
        self.shared: dict[QueueActor, list[Message]] = {}
        self.keepers: list[StoreDurability] = []
        self.line = CommitLine()
        self.kept = -1
        self.mark: Message | None = None

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The disk has all of it."""
        self.desk.complete(self)

    def streams_done(self) -> None:
        self.desk.finish(self)
