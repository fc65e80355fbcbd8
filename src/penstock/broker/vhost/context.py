"""What every part of one broker shares, handed to its makers and managers in one record."""

from penstock.base.chance import Chance
from penstock.base.clock import Clock
from penstock.base.config import Config
from penstock.broker.actors.actor import Scheduler
from penstock.broker.actors.log import Log
from penstock.broker.store.mirrors import Mirrors
from penstock.broker.vhost.catalogue import NOTHING_KEPT, Catalogue
from penstock.broker.vhost.vhost import VirtualHost
from penstock.flow.credit import Strategy
from penstock.flow.due import DueLine
from penstock.flow.early_look import INTAKE_BYTES_MIN, INTAKE_DIVISOR, EarlyLook
from penstock.flow.pending import SoftLimit
from penstock.flow.profile import Profile
from penstock.flow.watermark import Least
from penstock.telemetry.recorder import Recorder


class Context:
    """config, clock, chance, log: given by the node; recorder, scheduler: of all actors; dues:
    where their timers stand; intake: counts what is read from clients; vhosts: by name, live;
    mirrors: nodes with copies of this one's; profile, strategy: of flow control.

    Read anew each time, because they change: catalogue, what keeps durable things now;
    memory_used_bytes, by the process when it was last looked at; memory_base, the least of what it
    used beside what it held, and memory_peak, the most it held, negative. Owner: the broker.
    """

    __slots__ = (
        "catalogue",
        "chance",
        "clock",
        "config",
        "dues",
        "intake",
        "log",
        "memory_base",
        "memory_peak",
        "memory_used_bytes",
        "mirrors",
        "profile",
        "recorder",
        "scheduler",
        "soft_limit",
        "strategy",
        "vhosts",
    )

    def __init__(
        self,
        config: Config,
        clock: Clock,
        chance: Chance,
        log: Log,
        profile: Profile,
        vhosts: dict[str, VirtualHost],
    ) -> None:
        self.config = config
        self.clock = clock
        self.chance = chance
        self.log = log
        self.profile = profile
        self.strategy: Strategy = profile.strategy()
        self.soft_limit = SoftLimit(profile.soft_limit)
        self.mirrors = Mirrors(profile.mirror_credits)
        self.vhosts = vhosts
        self.recorder = Recorder(clock, config.recorder_events)
        self.scheduler = Scheduler(clock, self.recorder, config.turn_messages)
        self.scheduler.is_accounting = config.time_accounting
        self.dues = DueLine()
        self.intake = EarlyLook(self.dues, clock, INTAKE_DIVISOR, INTAKE_BYTES_MIN)
        self.scheduler.intake = self.intake
        self.catalogue: Catalogue = NOTHING_KEPT
        self.memory_used_bytes = 0
        self.memory_base = Least()
        self.memory_peak = Least()
