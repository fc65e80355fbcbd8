"""What an operator can change while the broker runs: one named value each, with its own check.

A setting reads and writes the value where it is in force; this module finds it by its key. A change
of `SettingChanges` is recorded and logged. It lasts until the broker stops, or for some time: then
the value from before it comes back, unless the key was set for good meanwhile. A second change for
a time moves the end and not the value that comes back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from penstock.base.errors import OperatorError
from penstock.base.limits import SETTING_REVERTS
from penstock.base.quantities import show_duration
from penstock.broker.actors.cooperative import Steps
from penstock.broker.vhost.context import Context
from penstock.flow.due import Timer
from penstock.telemetry.events import SETTING_CHANGED


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings.

    key: dotted, for example `memory.high`.
    unit: how the value is written.
    meaning: one sentence for people.
    read: the value in force, as `write` takes it.
    write: puts a text in force at once, or raises OperatorError; then nothing has changed.
    named: the names that have a value of their own.
    of: the same for one name, `key:name`, or OperatorError; None where no name can have its own.
    """

    key: str
    unit: str
    meaning: str
    read: Callable[[], str]
    write: Callable[[str], None]
    named: Callable[[], list[str]] = list
    of: Callable[[str], "Setting"] | None = None

    def alone(self, name: str) -> "Setting":
        """The setting for `name` alone. Raises: OperatorError if there is no such."""
        if self.of is None:
            raise OperatorError(f"{self.key} cannot be set for '{name}' alone; set {self.key}")
        return self.of(name)


class Settings:
    """All settings of one broker, by key."""

    def __init__(self) -> None:
        self._by_key: dict[str, Setting] = {}

    def add(self, *settings: Setting) -> None:
        """Offer `settings` under their keys, which are new."""
        for setting in settings:
            assert setting.key not in self._by_key, f"setting {setting.key} has two owners"
            self._by_key[setting.key] = setting

    def all(self) -> list[Setting]:
        """Every setting, by key, each followed by those of names with a value of their own."""
        found: list[Setting] = []
        for key in sorted(self._by_key):
            setting = self._by_key[key]
            found.append(setting)
            found.extend(setting.alone(name) for name in sorted(setting.named()))
        return found

    def get(self, key: str) -> Setting:
        """The setting called `key`. Raises: OperatorError naming those that there are."""
        family, colon, name = key.partition(":")
        setting = self._by_key.get(family)
        if setting is not None and colon != "":
            return setting.alone(name)
        if setting is None:
            known = sorted(self._by_key)
            close = get_close_matches(key, known, 3, 0.6)
            hint = f"did you mean {' or '.join(close)}?" if close else f"one of: {', '.join(known)}"
            raise OperatorError(f"unknown setting '{key}'; {hint}")
        return setting

    def write(self, key: str, text: str) -> tuple[str, str]:
        """Change `key` to `text`: (value before, value after). Raises: OperatorError."""
        setting = self.get(key)
        before = setting.read()
        try:
            setting.write(text)
        except OperatorError as error:
            if str(error).startswith(key):
                raise
            raise OperatorError(f"{key}={text}: {error}") from error
        return before, setting.read()

    def write_all(self, wanted: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
        """Change all of `wanted`, (key, text), or none: (key, before, after) of each.

        Raises: OperatorError; then what had been changed already has its old value again."""
        done: list[tuple[str, str, str]] = []
        for key, text in wanted:
            try:
                before, after = self.write(key, text)
            except OperatorError:
                for changed, old, _ in reversed(done):
                    self.write(changed, old)
                raise
            done.append((key, before, after))
        return done


SHOWN_MAX = 5
"""Of the settings that are refused."""
TAKEN_PER_STEP = 16


def refused_words(refused: Sequence[str]) -> str:
    """For the log of a broker that has taken over settings."""
    more = f"; and {len(refused) - SHOWN_MAX} more" if len(refused) > SHOWN_MAX else ""
    return (
        "settings that were changed before it began are not in force here: "
        f"{'; '.join(refused[:SHOWN_MAX])}{more}"
    )


def not_kept(why: str) -> str:
    """For whoever has changed settings that are to be kept for other brokers."""
    return f"it is in force, but not kept for brokers of other nodes yet: {why}"


FOR_NS_MAX = 7 * 24 * 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One change. reverts_in_ns: 0 if it stays."""

    key: str
    before: str
    after: str
    reverts_in_ns: int = 0


class SettingKeeper:
    """Keeps changes for good for the broker that serves after this one. Nominal base; the pipe to a
    cluster's member."""

    def keep(self, changes: Mapping[str, str]) -> None:
        """By key; they are made already. Raises: OperatorError, where no more are kept."""
        raise NotImplementedError

    def waits(self) -> str | None:
        """Why what was changed is not kept yet, "" when it is, None when that is not known."""
        raise NotImplementedError


class SettingChanges:
    """settings: what there is to change; line: where ends of changes fall due; keeper: None for a
    broker whose settings are gone with it."""

    def __init__(self, context: Context, settings: Settings) -> None:
        self.settings = settings
        self.clock = context.clock
        self.line = context.dues
        self.recorder = context.recorder
        self.log = context.log
        self.keeper: SettingKeeper | None = None
        self._reverts: dict[str, Timer] = {}

    def change(self, wanted: list[tuple[str, str]], for_ns: int) -> list[Change]:
        """Change all of `wanted`, (key, text), or none. for_ns: how long, 0 for good.

        Raises: OperatorError, then nothing has changed."""
        keys = [key for key, _ in wanted]
        for key in keys:
            if keys.count(key) > 1:
                raise OperatorError(f"setting '{key}' is given twice; give each key once")
        if not 0 <= for_ns <= FOR_NS_MAX:
            raise OperatorError(
                f"a change for {show_duration(for_ns)}: at most {show_duration(FOR_NS_MAX)}; leave "
                "out --for to keep it until the broker stops"
            )
        fresh = [key for key in keys if key not in self._reverts]
        if for_ns > 0 and len(self._reverts) + len(fresh) > SETTING_REVERTS.default:
            raise OperatorError(
                f"{len(self._reverts)} changes wait to be taken back, and {len(fresh)} more would "
                f"pass the limit of {SETTING_REVERTS.default}; set some of them for good first"
            )
        done = self.settings.write_all(wanted)
        changes = [Change(key, before, after, for_ns) for key, before, after in done]
        for one in changes:
            self._note(one.key, one.before, one.after, for_ns)
            self._keep(one)
        return changes

    def take_over(self, changes: Mapping[str, str]) -> Steps[list[str]]:
        """Change settings as they were changed at a broker before this one, each by itself, in
        steps: why not, a sentence for each that cannot be."""
        refused: list[str] = []
        for number, (key, text) in enumerate(changes.items(), 1):
            try:
                self.change([(key, text)], 0)
            except OperatorError as error:
                said = str(error)
                refused.append(said if key in said else f"{key}={text}: {said}")
            if number % TAKEN_PER_STEP == 0:
                yield 0.0
        return refused

    def reverts_in_ns(self, key: str) -> int:
        """How long until `key` has its old value again, 0 if its value stays."""
        revert = self._reverts.get(key)
        if revert is None:
            return 0
        return max(1, revert.due_ns - self.clock.monotonic_ns())

    def _revert(self, key: str, value: str, now_ns: int) -> None:
        """The time of a change is over: `value` comes back to `key`."""
        self._reverts.pop(key, None)
        try:
            before, after = self.settings.write(key, value)
        except OperatorError as error:
            self.log.warning(f"setting {key} stays as it is: {error}")
            return
        self._note(key, before, after, 0)

    def _keep(self, change: Change) -> None:
        pending = self._reverts.get(change.key)
        if change.reverts_in_ns == 0:
            if pending is not None:
                del self._reverts[change.key]
                self.line.take_off(pending)
            return
        if pending is None:
            pending = Timer(partial(self._revert, change.key, change.before))
            self._reverts[change.key] = pending
        self.line.put(pending, self.clock.monotonic_ns() + change.reverts_in_ns)

    def _note(self, key: str, before: str, after: str, for_ns: int) -> None:
        self.recorder.record(SETTING_CHANGED, f"setting:{key}", "", f"{before} -> {after}", for_ns)
        lasting = f" for {show_duration(for_ns)}" if for_ns > 0 else ""
        self.log.info(f"setting {key}: {before} -> {after}{lasting}")
