"""Changes of settings on a running broker: recorded, logged, and taken back by themselves if asked.

A change `for` some time keeps the value from before it; when the time is over that value is put
back, unless somebody has set the key for good meanwhile. A second change for a time moves the end
and not the value that comes back.
"""

from dataclasses import dataclass
from functools import partial

from penstock.base.errors import OperatorError
from penstock.base.limits import SETTING_REVERTS
from penstock.base.quantities import show_duration
from penstock.broker.settings.settings import Settings
from penstock.broker.vhost.context import Context
from penstock.flow.due import Timer
from penstock.telemetry.events import SETTING_CHANGED

FOR_NS_MAX = 7 * 24 * 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One change. reverts_in_ns: 0 if it stays."""

    key: str
    before: str
    after: str
    reverts_in_ns: int = 0


class SettingChanges:
    """settings: what there is to change; line: where ends of changes fall due."""

    def __init__(self, context: Context, settings: Settings) -> None:
        self.settings = settings
        self.clock = context.clock
        self.line = context.dues
        self.recorder = context.recorder
        self.log = context.log
        self._reverts: dict[str, Timer] = {}

    def change(self, wanted: list[tuple[str, str]], for_ns: int) -> list[Change]:
        """Change all of `wanted`, (key, text), or none. for_ns: how long, 0 for good.

        Raises: OperatorError, then nothing has changed."""
        keys = [key for key, _ in wanted]
        for key in keys:
            if keys.count(key) > 1:
                raise OperatorError(f"setting '{key}' is given twice; give each key once")
        if not 0 <= for_ns <= FOR_NS_MAX:
            raise OperatorError(
                f"a change for {show_duration(for_ns)}: at most {show_duration(FOR_NS_MAX)}; leave "
                "out --for to keep it until the broker stops"
            )
        fresh = [key for key in keys if key not in self._reverts]
        if for_ns > 0 and len(self._reverts) + len(fresh) > SETTING_REVERTS.default:
            raise OperatorError(
                f"{len(self._reverts)} changes wait to be taken back, and {len(fresh)} more would "
                f"pass the limit of {SETTING_REVERTS.default}; set some of them for good first"
            )
        done = self.settings.write_all(wanted)
        changes = [Change(key, before, after, for_ns) for key, before, after in done]
        for one in changes:
            self._note(one.key, one.before, one.after, for_ns)
            self._keep(one)
        return changes

    def reverts_in_ns(self, key: str) -> int:
        """How long until `key` has its old value again, 0 if its value stays."""
        revert = self._reverts.get(key)
        if revert is None:
            return 0
        return max(1, revert.due_ns - self.clock.monotonic_ns())

    def _revert(self, key: str, value: str, now_ns: int) -> None:
        """The time of a change is over: `value` comes back to `key`."""
        self._reverts.pop(key, None)
        try:
            before, after = self.settings.write(key, value)
        except OperatorError as error:
            self.log.warning(f"setting {key} stays as it is: {error}")
            return
        self._note(key, before, after, 0)

    def _keep(self, change: Change) -> None:
        pending = self._reverts.get(change.key)
        if change.reverts_in_ns == 0:
            if pending is not None:
                del self._reverts[change.key]
                self.line.take_off(pending)
            return
        if pending is None:
            pending = Timer(partial(self._revert, change.key, change.before))
            self._reverts[change.key] = pending
        self.line.put(pending, self.clock.monotonic_ns() + change.reverts_in_ns)

    def _note(self, key: str, before: str, after: str, for_ns: int) -> None:
        self.recorder.record(SETTING_CHANGED, f"setting:{key}", "", f"{before} -> {after}", for_ns)
        lasting = f" for {show_duration(for_ns)}" if for_ns > 0 else ""
        self.log.info(f"setting {key}: {before} -> {after}{lasting}")
