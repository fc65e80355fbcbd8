"""Every question of the control socket, and the way to its answer for all workers."""

from typing import Final

from penstock.server.workers.gather_definitions import Export, Import
from penstock.server.workers.gather_node import (
    STATUS,
    AddVhost,
    DeleteVhost,
    Login,
    Node,
    VhostNames,
)
from penstock.server.workers.gather_pages import Listing, sums_of
from penstock.server.workers.gather_records import (
    EVENTS,
    LOG,
    RecordList,
    RecordPart,
    RecordSave,
)
from penstock.server.workers.gather_settings import SetSettings, SettingsOfAll
from penstock.server.workers.gather_sums import closed, joined, most
from penstock.server.workers.gather_views import (
    AccountsBySort,
    Alarms,
    Queues,
    Store,
    Top,
)
from penstock.server.workers.gather_ways import (
    AtAll,
    Either,
    First,
    Joined,
    OfCauses,
    OfConnection,
    OfLimits,
    OfQueue,
    OfVhost,
    Summed,
    Way,
)
from penstock.server.workers.gather_why import Why

ITEMS: Final = "items"
SEEK: Final = Summed({"whole": joined, "bare": joined}, is_whole=True)

WAYS: Final[dict[str, Way]] = {
    "why": Why(),
    "status": Summed(STATUS),
    "events": EVENTS,
    "log": LOG,
    "store": Store(),
    "connections list": Listing("connections"),
    "connections close": OfConnection(),
    "connections seek": SEEK,
    "flow edges": Listing("edges", sums=("matching", "total", "blocked")),
    "flow accounts": Either("queue", OfCauses(), AccountsBySort()),
    "flow alarms": Alarms(),
    "flow settings": SettingsOfAll(),
    "flow set": SetSettings(),
    "flow take": AtAll(),
    "flow top": Top(),
    "objects connections": Either("name", OfConnection(), Listing(ITEMS)),
    "objects channels": Either("name", OfConnection(), Listing(ITEMS)),
    "objects consumers": Listing(ITEMS),
    "objects queues": Either("name", OfVhost("vhost"), Listing(ITEMS)),
    "objects exchanges": Listing(ITEMS),
    "objects bindings": Listing(ITEMS),
    "objects vhosts": VhostNames(),
    "objects login": Login(),
    "objects node": Node(),
    "queues list": Either("name", OfQueue(), Queues("queues")),
    "queues pause": OfQueue(),
    "queues resume": OfQueue(),
    "queues release": OfQueue(),
    "queues readers": Listing("readers"),
    "queues seek": SEEK,
    "policies list": Listing("policies"),
    "policies set": OfVhost("policy", "vhost"),
    "policies clear": OfVhost("vhost"),
    "policies export": Joined(),
    "limits list": Listing("limits", fold=sums_of("used")),
    "limits set": OfLimits(),
    "limits clear": OfLimits(),
    "users list": Listing("users", fold=sums_of("connections")),
    "users add": AtAll(),
    "users delete": AtAll({"said": closed}),
    "users change-password": AtAll(),
    "users set-tags": AtAll(is_hashing=True),
    "users kept": First(),
    "users take": AtAll(),
    "vhosts list": Listing("vhosts"),
    "vhosts add": AddVhost(),
    "vhosts delete": DeleteVhost(),
    "super-streams list": Listing("partitions"),
    "super-streams add": OfVhost("vhost"),
    "super-streams delete": OfVhost("vhost"),
    "permissions list": Listing("permissions", "topic_permissions"),
    "permissions set": OfVhost("vhost"),
    "permissions clear": OfVhost("vhost"),
    "permissions set-topic": OfVhost("vhost"),
    "permissions clear-topic": OfVhost("vhost"),
    "definitions export": Export(),
    "definitions import": Import(),
    "definitions check": First(),
    "record status": RecordList(),
    "record list": RecordList(),
    "record save": RecordSave(),
    "record part": RecordPart(),
    "record round": Summed({"rounds": most}),
}
"""By op and do. What is not here is no question; a worker says so."""
