"""Settings at the broker of a node that leads: it begins with what was changed at other nodes, and
what is changed here is kept by its member."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.steps import whole
from penstock.broker.actors.log import Log
from penstock.broker.settings.settings import SettingChanges, SettingKeeper, refused_words
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.kept_settings import check_room
from penstock.server.cluster.pipe import CHANGED, PipeEnded


class PipeKeeper(SettingKeeper):
    """settings: that are kept, or will be; own: keys that were changed here; sent: how often; safe:
    how many of these are in etcd; said: why the others are not yet, "" where that is not known."""

    def __init__(self, changes: SettingChanges, pipe: ChildPipe, log: Log) -> None:
        self.changes = changes
        self.pipe = pipe
        self.log = log
        self.settings: dict[str, str] = {}
        self.own: set[str] = set()
        self.sent = 0
        self.safe = 0
        self.said = ""

    def take_over(self, settings: Mapping[str, str]) -> None:
        """What was changed at another node is in force here."""
        self.settings.update(settings)
        refused = whole(self.changes.take_over(settings))
        if refused:
            self.log.warning(refused_words(refused))

    def keep(self, changes: Mapping[str, str]) -> None:
        check_room(self.settings, changes)
        self.settings.update(changes)
        self.own.update(changes)
        self.sent += 1
        with suppress(PipeEnded):
            self.pipe.send(CHANGED, msgspec.json.encode(changes))

    def follow(self, wanted: Iterable[tuple[str, str]]) -> None:
        """These were changed by the configuration, read again: of what is kept that is the last
        word."""
        changes = {key: text for key, text in wanted if key in self.settings}
        if not changes:
            return
        try:
            self.keep(changes)
        except OperatorError as fault:
            self.log.warning(str(fault))

    def waits(self) -> str | None:
        self.look()
        if self.safe >= self.sent:
            return ""
        return self.said or None

    def look(self) -> None:
        """What the member has said."""
        while self.pipe.kept:
            told = self.pipe.kept.popleft()
            self.safe, self.said = told.count, told.words
            # Whoever leads has the last word.
            news = {key: text for key, text in told.settings.items() if key not in self.own}
            if news:
                self.take_over(news)
