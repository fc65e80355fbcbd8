"""Long work in small steps: a generator that stops after each, and whoever runs it looks at the
clock between them.

What it yields is how many seconds it wants to rest: 0.0 to go on as soon as others had their turn.
Between two steps everything may change that others may change.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[float, None, T]
