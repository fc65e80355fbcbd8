"""Where the broker's lines for people go."""

from collections.abc import Mapping


class Log:
    """Nominal base; the server's writes the lines, tests collect them."""

    def info(self, text: str) -> None:
        """One step of life."""

    def event(self, kind: str, text: str, fields: Mapping[str, object]) -> None:
        """Something that a client has caused, as `connection.opened`: said so often at most.
        fields: the same for programs."""
        self.info(text)

    def warning(self, text: str) -> None:
        """An operator should look."""

    def error(self, text: str, error: BaseException) -> None:
        """We are wrong."""
