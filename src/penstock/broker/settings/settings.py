"""What an operator can change while the broker runs: one named value each, with its own check.

A setting reads and writes the value where it is in force; this module finds it by its key. A change
is recorded by its caller, and lasts until the broker stops.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from penstock.base.errors import OperatorError


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
