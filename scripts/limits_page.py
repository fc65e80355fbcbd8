"""Prints docs/limits.md from the table in penstock.base.limits."""

import sys

from penstock.base.limits import LIMITS, Limit

HEADER = """\
# Limits

Everything in Penstock that can grow has a bound. This page is printed by `make docs` from
`src/penstock/base/limits.py`, the only place where a bound may stand; edit it there.

A limit is given in its unit. *Configured* says whether the configuration has a key of its name,
which takes values between *lowest* and *highest*, or why there is none. *Owner* is the module that
enforces it. At the bound exactly one thing happens, never silently.

| limit | unit | default | lowest | highest | configured | owner | at the bound |
| --- | --- | ---: | ---: | ---: | --- | --- | --- |
"""


def row(limit: Limit) -> str:
    numbers = " | ".join(f"{n:,}" for n in (limit.default, limit.lowest, limit.highest))
    key = f"no: {limit.no_key}" if limit.no_key else "yes"
    cells = (f"`{limit.name}`", limit.unit, numbers, key, f"`{limit.owner}`", limit.at_bound)
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """The whole page; the same table gives the same text."""
    return HEADER + "".join(row(limit) for limit in LIMITS)


if __name__ == "__main__":
    sys.stdout.write(page())
