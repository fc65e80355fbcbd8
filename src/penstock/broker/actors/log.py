"""Where the broker's lines for people go."""


class Log:
    """Nominal base; the server's writes the lines, tests collect them."""

    def info(self, text: str) -> None:
        """One step of life."""

    def warning(self, text: str) -> None:
        """An operator should look."""

    def error(self, text: str, error: BaseException) -> None:
        """We are wrong."""
