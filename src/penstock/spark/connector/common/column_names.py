"""Which columns a query wants of a source: option `columns`.

Spark does not tell a Python source which columns a query looks at, and copies every one of them
twice for each row. So whoever wants few says so.
"""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.option_values import Values

BODY: Final = "body"
ALWAYS: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "redelivered")
ASKED_FOR: Final = (
    ("properties", "includeProperties"),
    ("headers", "includeHeaders"),
    ("enqueue_ts", "includeFlow"),
)


def parse_columns(values: Values) -> tuple[str, ...]:
    """The columns that option `columns` names, with BODY for the body whatever it is called; none
    for all. Raises: OperatorError naming what is there."""
    body = values.text("bodyColumn", BODY)
    others = [*ALWAYS, *(name for name, flag in ASKED_FOR if values.flag(flag, False))]
    if not body:
        raise OperatorError("option bodyColumn is empty: give the column a name, or leave it out")
    if body.lower() in others:
        raise OperatorError(
            f"option bodyColumn is {body!r}, and there is a column of that name already; take "
            f"another one than {', '.join(others)}"
        )
    if not values.has("columns"):
        return ()
    there = [body, *others]
    given = [name.strip() for name in values.text("columns").split(",")]
    for number, name in enumerate(given):
        if name not in there:
            raise OperatorError(
                f"option columns names {name!r}; there are {', '.join(there)}{_more(name)}"
            )
        if name in given[:number]:
            raise OperatorError(f"option columns names {name!r} twice")
    return tuple(BODY if name == body else name for name in given)


def _more(name: str) -> str:
    for column, flag in ASKED_FOR:
        if name == column:
            return f", and this one with {flag}=true"
    return ""
