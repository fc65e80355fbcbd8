"""What the management remembers of a broker's answers, and what it does not."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from penstock.management import missing
from penstock.management.broker_link import EMPTY_S, BrokerLink, Row
from penstock.management.pages.samples import Samples


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


async def lacking(link: BrokerLink) -> list[str]:
    """What is noted for a request that lists queues, in a task of its own."""
    missing.begin()
    assert await link.listing("queues") == [{"name": "there"}]
    return missing.noted()


def test_everybody_who_is_shown_a_part_is_told_so(tmp_path: Path) -> None:
    """Who asks first, who waits for the same answer, and who has what was kept of it."""
    said = "worker 1: it has gone\nfor ever"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        answer = {"items": [{"name": "there"}], "missing": [said]}
        writer.write(msgspec.json.encode(answer) + b"\n")
        await writer.drain()
        writer.close()

    async def play() -> None:
        path = tmp_path / "control"
        async with await asyncio.start_unix_server(serve, path):
            link = BrokerLink(str(path))
            both = await asyncio.gather(*(asyncio.create_task(lacking(link)) for _ in range(2)))
            assert both == [[said], [said]]
            assert await asyncio.create_task(lacking(link)) == [said]
            samples = Samples(link)
            for _ in range(2):
                missing.begin()
                await samples.ask({"op": "flow", "do": "top"})
                assert missing.header_text() == "worker 1: it has gone?for ever"

    asyncio.run(play())
