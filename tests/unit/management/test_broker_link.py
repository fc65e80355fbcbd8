"""What the management remembers of a broker's answers, and what it does not."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from penstock.management.broker_link import EMPTY_S, BrokerLink, Row


async def answering(path: Path, answer: Callable[[Row], list[Row]]) -> asyncio.Server:
    """A control socket that answers listings, each later than an empty one is kept for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = msgspec.json.decode(await reader.readline(), type=Row)
        await asyncio.sleep(EMPTY_S * 1.5)
        writer.write(msgspec.json.encode({"items": answer(request)}) + b"\n")
        await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(serve, path)


@pytest.mark.parametrize(
    ("fields", "asked"), [({"vhost": "/", "name": "new"}, 2), ({"vhost": "/"}, 1)]
)
def test_that_an_object_is_not_there_is_not_remembered(
    tmp_path: Path, fields: dict[str, str], asked: int
) -> None:
    """However slow the broker is; a listing of all that took long is."""
    questions: list[Row] = []

    def answer(request: Row) -> list[Row]:
        questions.append(request)
        return [{"name": "new"}] if len(questions) > 1 else []

    async def play() -> None:
        async with await answering(tmp_path / "control", answer):
            link = BrokerLink(str(tmp_path / "control"))
            assert await link.listing("queues", **fields) == []
            again = await link.listing("queues", **fields)
            assert again == ([{"name": "new"}] if asked == 2 else [])
            assert await link.listing("queues", **fields) == again, "what is there is kept"

    asyncio.run(play())
    assert len(questions) == asked
