"""Long work on the loop: others get their turn, JSON in pieces is the JSON of the whole."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.broker.actors.steps import Steps
from penstock.server.control.control_socket import ROWS, in_slices, json_steps
from tests.definitions import run_through
from tests.patience import PATIENCE_S

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_others_have_their_turn() -> None:
    async def scenario() -> None:
        turns = 0

        def steps() -> Steps[str]:
            while turns < 5:
                yield 0.0
            return "done"

        async def other() -> None:
            nonlocal turns
            while turns < 5:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        assert await in_slices(steps()) == "done"
        await task

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_a_rest_is_a_rest_and_a_fault_is_a_fault() -> None:
    async def scenario() -> None:
        def steps() -> Steps[None]:
            yield 0.01
            raise OperatorError("no")

        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(OperatorError, match="no"):
            await in_slices(steps())
        assert loop.time() - began >= 0.009

    asyncio.run(scenario())


@given(PLAIN)
def test_json_in_pieces(value: object) -> None:
    assert run_through(json_steps(value)) == msgspec.json.encode(value)


def test_long_lists_in_pieces() -> None:
    value = {"a": {"rows": [{"n": number} for number in range(ROWS * 2 + 1)]}, "b": [], "c": {}}
    assert run_through(json_steps(value)) == msgspec.json.encode(value)
    assert sum(1 for _ in json_steps(value)) > 8
