"""`/api/health/checks/...` and `/api/aliveness-test`: for load balancers and Kubernetes."""

from typing import Final

from starlette.responses import Response

from penstock.management.broker_link import Row
from penstock.management.errors import bad_request
from penstock.management.requests import Call, Handler, json
from penstock.management.resources.flow import cluster_answer
from penstock.management.resources.queues import need_vhost

NUMBER_DIGITS: Final = 15
UNITS_S: Final = {
    "days": 86_400,
    "weeks": 604_800,
    "months": 2_592_000,
    "years": 31_536_000,
}


def verdict(reason: str, **more: object) -> Response:
    """200 if there is no `reason` against it, else 503."""
    if reason == "":
        return json({"status": "ok"} | more)
    return json({"status": "failed", "reason": reason} | more, 503)


async def _node(call: Call) -> Row:
    return await call.link.node()


async def alarms(call: Call) -> Response:
    node = await _node(call)
    machine = node["machine"]
    found = [
        {"node": node["node"], "resource": resource}
        for resource, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm"))
        if machine[key]
    ]
    if not found:
        return verdict("")
    named = " and ".join(one["resource"] for one in found)
    return verdict(f"There are alarms in effect: {named}", alarms=found)


async def in_service(call: Call) -> Response:
    """Whether clients can work: the broker answers, and its disk has not failed."""
    node = await _node(call)
    return verdict(str(node["machine"]["failure"]))


async def always(call: Call) -> Response:
    """Asked so that an answer shows that the broker is there."""
    await _node(call)
    return verdict("")


async def mirror_sync_critical(call: Call) -> Response:
    """Whether mirrored queues would have no copy in sync if this node went."""
    node = await _node(call)
    others = node["cluster"]["others"]
    if not others:
        return json({"status": "ok", "reason": "single node cluster"})
    synced = [one["name"] for one in others if one["is_in_sync"] and one["is_online"]]
    if not node["cluster"]["is_mirrored"] or synced:
        return verdict("")
    return verdict("There are classic mirrored queues without online synchronised mirrors")


async def quorum_critical(call: Call) -> Response:
    """Whether nothing could be confirmed if one more node went. With shards, of any of them. The
    leader says so, who alone knows what the others have."""
    found = await cluster_answer(call)
    if len(found["nodes"]) <= 1:
        return json({"status": "ok", "reason": "single node cluster"})
    critical = {name for one in found.get("shards") or [found] for name in one["quorum_critical"]}
    if not critical:
        return verdict("")
    return verdict(
        "There are quorum queues that would lose their quorum if the target node is shut down",
        online=sorted(critical),
    )


async def port_listener(call: Call) -> Response:
    port = call.path("port")
    if not port.isdecimal() or len(port) > NUMBER_DIGITS:
        raise bad_request(f"port '{port[:20]}' is no number")
    ports = [one["port"] for one in (await _node(call))["listeners"]]
    if int(port) in ports:
        return verdict("", port=int(port))
    return verdict("No active listener", missing=int(port), ports=ports)


async def protocol_listener(call: Call) -> Response:
    wanted = call.path("protocol")
    protocols = sorted({one["protocol"] for one in (await _node(call))["listeners"]})
    known = {"amqp091": "amqp", "amqps": "amqp/ssl", "amqp091/ssl": "amqp/ssl"}
    if known.get(wanted.lower(), wanted.lower()) in protocols:
        return verdict("", protocol=wanted)
    return verdict("No active listener", missing=wanted, protocols=protocols)


async def certificates(call: Call) -> Response:
    """Whether the certificate is good for some time yet."""
    within, unit = call.path("within"), call.path("unit")
    if not within.isdecimal() or len(within) > NUMBER_DIGITS or unit not in UNITS_S:
        raise bad_request(f"{within[:20]} {unit[:20]}: a number of {', '.join(UNITS_S)}")
    expired = [
        {"port": one["port"], "seconds_left": int(one["certificate_s"])}
        for one in (await _node(call))["listeners"]
        if one["certificate_s"] is not None and one["certificate_s"] <= int(within) * UNITS_S[unit]
    ]
    return verdict("Certificates expiring" if expired else "", expired=expired)


async def aliveness(call: Call) -> Response:
    """Whether the virtual host answers."""
    vhost = call.vhost()
    await need_vhost(call, vhost)
    # Of several workers its own has to answer.
    await call.link.ask({"op": "objects", "do": "exchanges", "vhost": vhost, "name": ""})
    return verdict("")


CHECKS: Final = "/health/checks/"
ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", CHECKS + "alarms"): alarms,
    ("GET", CHECKS + "local-alarms"): alarms,
    ("GET", CHECKS + "port-listener/{port}"): port_listener,
    ("GET", CHECKS + "protocol-listener/{protocol:path}"): protocol_listener,
    ("GET", CHECKS + "certificate-expiration/{within}/{unit}"): certificates,
    ("GET", CHECKS + "virtual-hosts"): always,
    ("GET", CHECKS + "node-is-mirror-sync-critical"): mirror_sync_critical,
    ("GET", CHECKS + "node-is-quorum-critical"): quorum_critical,
    ("GET", CHECKS + "is-in-service"): in_service,
    ("GET", CHECKS + "ready-to-serve-clients"): in_service,
    ("GET", CHECKS + "below-node-connection-limit"): always,
    ("GET", CHECKS + "metadata-store/initialized"): always,
    ("GET", CHECKS + "reached-target-cluster-size"): always,
    ("GET", "/aliveness-test/{vhost}"): aliveness,
    ("GET", "/healthchecks/node"): in_service,
}
