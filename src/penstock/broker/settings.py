"""What an operator can change while the broker runs: one named value each, with its own check.

A setting belongs to whoever owns the value; this room only finds it by its key. A change is
recorded by whoever asked for it, and lasts until the broker stops.
"""

from penstock.base.errors import OperatorError


class Setting:
    """One value. key: dotted, for example `memory.high`; unit: how it is written; meaning: one
    sentence for people. Nominal base."""

    __slots__ = ("key", "meaning", "unit")

    def __init__(self, key: str, unit: str, meaning: str) -> None:
        self.key = key
        self.unit = unit
        self.meaning = meaning

    def read(self) -> str:
        """The value in force, as `write` takes it."""
        raise NotImplementedError

    def write(self, text: str) -> None:
        """Put `text` in force at once. Raises: OperatorError; then nothing has changed."""
        raise NotImplementedError


class Settings:
    """All settings of one broker, by key."""

    def __init__(self) -> None:
        self._by_key: dict[str, Setting] = {}

    def add(self, setting: Setting) -> None:
        """Offer `setting` under its key, which is new."""
        assert setting.key not in self._by_key, f"setting {setting.key} has two owners"
        self._by_key[setting.key] = setting

    def all(self) -> list[Setting]:
        """Every setting, by key."""
        return [self._by_key[key] for key in sorted(self._by_key)]

    def get(self, key: str) -> Setting:
        """The setting called `key`. Raises: OperatorError naming those that there are."""
        setting = self._by_key.get(key)
        if setting is None:
            raise OperatorError(
                f"unknown setting '{key}'; one of: {', '.join(sorted(self._by_key))}"
            )
        return setting

    def write(self, key: str, text: str) -> tuple[str, str]:
        """Change `key` to `text`: (value before, value after). Raises: OperatorError."""
        setting = self.get(key)
        before = setting.read()
        setting.write(text)
        return before, setting.read()
