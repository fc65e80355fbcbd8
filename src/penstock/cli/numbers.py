"""Numbers on the command line."""

from typing import Any, Final

import click


class NumberRange(click.FloatRange):
    """A range of numbers without `nan`, which is below no number and above none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises: click.BadParameter."""
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


WINDOW: Final = NumberRange(0, 600, min_open=True)
"""Seconds of the history that is looked at."""
