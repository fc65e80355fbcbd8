"""A long listing is sorted, searched and cut in slices, and is what one piece would have made."""

import asyncio
from random import Random

import pytest

from penstock.management.listing import SLICE_ROWS, Row, shaped

COUNT = 20 * SLICE_ROWS + 7


def rows_of(count: int) -> list[Row]:
    dice = Random(7)
    return [
        {"name": f"q{number}", "vhost": "/", "messages": dice.randrange(50), "nth": number}
        for number in range(count)
    ]


async def turns_beside(rows: list[Row], query: dict[str, str]) -> tuple[list[Row] | Row, int]:
    """The listing, and how often others had their turn meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(count())
    found = await shaped(rows, query, ("vhost", "name"))
    beside.cancel()
    return found, turns


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, SLICE_ROWS, COUNT])
def test_sorted_as_in_one_piece(count: int, is_reverse: bool) -> None:
    rows = rows_of(count)
    query = {"sort": "messages", "sort_reverse": "true" if is_reverse else "false"}
    found, turns = asyncio.run(turns_beside(rows, query))
    assert found == sorted(rows, key=lambda row: int(row["messages"]), reverse=is_reverse)
    assert turns >= 2 * (count // SLICE_ROWS) - 2


@pytest.mark.parametrize("regex", ["true", "false"])
def test_others_have_turns_while_names_are_searched(regex: str) -> None:
    query = {"page": "1", "page_size": "5", "name": "7", "use_regex": regex, "columns": "nth"}
    found, turns = asyncio.run(turns_beside(rows_of(COUNT), query))
    assert isinstance(found, dict)
    assert found["items"][0] == {"nth": 10_007} and found["item_count"] == 5
    assert found["filtered_count"] == sum("7" in str(number) for number in range(COUNT))
    assert turns >= 3 * (COUNT // SLICE_ROWS) - 2
