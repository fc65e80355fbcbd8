"""What clients send that is no number and no JSON: told so, and no fault of ours."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.types import Message

from penstock.management.access import Visitor
from penstock.management.errors import HttpFault
from penstock.management.listing import shaped
from penstock.management.requests import Call, Services, number_of
from penstock.management.resources.flow import edges
from penstock.management.resources.health import certificates, port_listener

VISITOR = Visitor("root", "", frozenset({"administrator"}), frozenset())
LONG = "9" * 5_000
DEEP = b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"


def call(content: bytes = b"", query: str = "", **path: str) -> Call:
    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    scope = {"type": "http", "headers": [], "query_string": query.encode(), "path_params": path}
    return Call(cast(Services, None), VISITOR, Request(scope, receive))


@pytest.mark.parametrize(
    "work",
    [
        lambda: edges(call(query=f"limit={LONG}")),
        lambda: port_listener(call(port=LONG)),
        lambda: certificates(call(within=LONG, unit="days")),
        lambda: call(DEEP).body(),
        lambda: shaped([], {"page": LONG}),
    ],
)
def test_what_python_cannot_read_is_the_client_s_fault(work: Callable[[], Awaitable[Any]]) -> None:
    async def told() -> None:
        with pytest.raises(HttpFault) as caught:
            await work()
        assert caught.value.status == 400

    asyncio.run(told())


def test_a_number_of_very_many_digits_is_none() -> None:
    with pytest.raises(HttpFault) as caught:
        number_of({"count": LONG}, "count", 1, 0, 10)
    assert caught.value.status == 400
    assert number_of({"count": "7"}, "count", 1, 0, 10) == 7
