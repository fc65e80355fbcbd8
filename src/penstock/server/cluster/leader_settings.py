"""Between etcd and the broker of a node that leads: settings which that broker changes are kept for
the next one, and it begins with what was changed at those before it."""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log
from penstock.server.cluster.broker_child import BrokerChild
from penstock.server.cluster.coordinator import CoordinatorThread
from penstock.server.cluster.etcd import Stored
from penstock.server.cluster.kept_settings import KeptSettings, read_kept
from penstock.server.cluster.pipe import Kept

_NEVER: Final = -1


class LeaderSettings:
    """thread: who talks to etcd; child: the broker, None while it does not serve; known: settings
    that it has; heard: how often it has changed any; safe: so many of these are in etcd; dropped:
    the revision of those that no node was left to have, which are not taken over."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.kept = KeptSettings()
        self.thread: CoordinatorThread | None = None
        self.child: BrokerChild | None = None
        self.known: dict[str, str] = {}
        self.heard = 0
        self.safe = 0
        self.said = (0, "")
        self.words = ""
        self.is_saving = False
        self.has_looked = False
        self.dropped = _NEVER

    # -- the broker ------------------------------------------------------------------------------

    def begin(self, child: BrokerChild) -> dict[str, str]:
        """What a broker begins with."""
        self.child = child
        self.heard = self.safe = 0
        self.said = (0, "")
        self.known = self.kept.all()
        return dict(self.known)

    def over(self) -> None:
        """It is gone; what it has changed is kept nevertheless."""
        self.child = None

    def changed(self, changes: Mapping[str, str]) -> None:
        """By the broker, for good."""
        self.heard += 1
        self.known.update(changes)
        try:
            self.kept.change(changes)
        except OperatorError as fault:
            # The broker has said so to the operator.
            self.log.warning(str(fault))
        self._save()
        self._tell()

    # -- etcd ------------------------------------------------------------------------------------

    def seen(self, found: Stored | None, *, is_alone: bool) -> None:
        """What etcd has now. is_alone: no other node is there."""
        try:
            has_any = bool(read_kept(found))
        except OperatorError as fault:
            self._trouble(str(fault))
            return
        if found is not None and has_any and is_alone and not self.has_looked:
            self.dropped = found.revision
        self.has_looked = True
        if found is not None and found.revision == self.dropped:
            assert self.thread is not None, "it has seen this"
            self.thread.drop_settings(found.revision)
            found = None
        self.kept.seen(found)
        self._save()
        self._tell()

    def saved(self, changes: Mapping[str, str], after: dict[str, str] | None, words: str) -> None:
        """after: what etcd has now, None for `words` why it has not taken them; that is tried again
        at the next look."""
        self.is_saving = False
        if after is None:
            self._trouble(words)
        else:
            self.kept.saved(changes, after)
            self._save()
        self._tell()

    def _save(self) -> None:
        if not self.kept.is_saved() and not self.is_saving and self.thread is not None:
            self.is_saving = True
            self.thread.keep_settings(dict(self.kept.unsaved), dict(self.kept.lost))

    def _trouble(self, words: str) -> None:
        if words != self.words:
            self.log.warning(f"other nodes hear of changed settings later: {words}")
        self.words = words

    def _tell(self) -> None:
        """The broker, what is news to it."""
        if not self.kept.unsaved:
            self.safe = self.heard
            if self.words:
                self.log.info("changed settings are kept for other nodes now")
            self.words = ""
        if self.child is None:
            return
        news = {k: text for k, text in self.kept.all().items() if self.known.get(k) != text}
        self.known.update(news)
        if news or self.said != (self.safe, self.words):
            self.said = (self.safe, self.words)
            self.child.kept(Kept(self.safe, self.words, news))
