"""What a person would change, as KEY=VALUE: settings of the broker, or of those who use it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_bytes
from penstock.flow.hop import KIND_NAMES
from penstock.flow.overrides import configured
from penstock.flow.profile import profile_named
from penstock.lab.workload import Workload

FACTOR_MAX: Final = 100.0
PROFILE: Final = "profile"


@dataclass(frozen=True, slots=True)
class Setup:
    """A broker's settings and what its programs do."""

    config: Config
    workload: Workload


def recorded(profile: str, settings: dict[str, str]) -> Config:
    """The settings of the recorded broker that the simulator knows, as they stood at the end of the
    record. Raises: OperatorError for a profile there is not."""
    config = Config(profile=profile)
    if not profile_named(profile).has_credit():
        return config
    windows = {
        f"credit_{name}{suffix}": settings.get(f"credit.{name}{suffix}", "")
        for name in KIND_NAMES
        for suffix in ("", "_bytes")
    }
    return replace(config, **windows)  # type: ignore[arg-type]  # the keys are made of its fields


def window_of(config: Config) -> int:
    """Messages that may be under way from a channel to a queue, 0 for no limit."""
    return configured(profile_named(config.profile), config).credit_initial


def all_changed(setup: Setup, changes: Mapping[str, str]) -> Setup:
    """`setup` with all of `changes`, values by key. A profile comes first, whatever the order: it
    brings its own windows, which other changes are changes of. Raises: as `changed`."""
    for key in sorted(changes, key=_is_not_profile):
        setup = changed(setup, f"{key}={changes[key]}")
    return setup


def _is_not_profile(key: str) -> bool:
    return key != PROFILE


def by_key(texts: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE of each. Raises: OperatorError for a key that is given twice, and for a text that
    is no change."""
    found: dict[str, str] = {}
    for text in texts:
        key, value = _parted(text)
        if key in found:
            raise OperatorError(f"{key} is given twice, as {found[key]} and as {value}; give one")
        found[key] = value
    return found


def changed(setup: Setup, text: str) -> Setup:
    """`setup` with KEY=VALUE. Raises: OperatorError for a key or value that is none."""
    key, value = _parted(text)
    found = _CHANGES[key](setup, value)
    configured(profile_named(found.config.profile), found.config)
    return found


def _parted(text: str) -> tuple[str, str]:
    """Raises: OperatorError."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if key not in _CHANGES or not equals:
        raise OperatorError(
            f"'{text}' is no change; write KEY=VALUE with one of: {', '.join(_CHANGES)}"
        )
    return key, value


def _profile(setup: Setup, value: str) -> Setup:
    # Windows are part of a profile: those of the old one would make the new one half of itself.
    return replace(setup, config=Config(profile=profile_named(value).name))


def _credit(key: str) -> Callable[[Setup, str], Setup]:
    def change(setup: Setup, value: str) -> Setup:
        config = replace(setup.config, **{key: value})  # type: ignore[arg-type]  # text fields
        return replace(setup, config=config)

    return change


def _depth(setup: Setup, value: str) -> Setup:
    return replace(setup, workload=replace(setup.workload, depth_bytes=parse_bytes(value)))


def _memory(setup: Setup, value: str) -> Setup:
    return replace(setup, workload=replace(setup.workload, memory_high_bytes=parse_bytes(value)))


def _rates(key: str, group: str) -> Callable[[Setup, str], Setup]:
    """A factor on the rates of a `group` of the workload's."""

    def change(setup: Setup, value: str) -> Setup:
        factor = _factor(key, value)
        faster = tuple(
            replace(one, rate_per_s=one.rate_per_s * factor)
            for one in getattr(setup.workload, group)
        )
        return replace(setup, workload=replace(setup.workload, **{group: faster}))  # type: ignore[arg-type]  # as they were

    return change


def _prefetch(setup: Setup, value: str) -> Setup:
    if not value.isdecimal() or len(value) > 5 or int(value) > 65_535:
        raise OperatorError(f"prefetch '{value}' is not a number 0..65535, where 0 is no limit")
    consumers = tuple(replace(one, prefetch=int(value)) for one in setup.workload.consumers)
    return replace(setup, workload=replace(setup.workload, consumers=consumers))


def _factor(key: str, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= FACTOR_MAX:
        raise OperatorError(f"{key} '{value}' is not a factor above 0, up to {FACTOR_MAX:g}")
    return factor


_CHANGES: Final[dict[str, Callable[[Setup, str], Setup]]] = {
    PROFILE: _profile,
    **{
        f"credit.{name}{suffix}": _credit(f"credit_{name}{suffix}")
        for name in KIND_NAMES[:2]
        for suffix in ("", "_bytes")
    },
    "queue_depth": _depth,
    "memory_high": _memory,
    "load": _rates("load", "publishers"),
    "consumers": _rates("consumers", "consumers"),
    "prefetch": _prefetch,
}
