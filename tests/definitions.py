"""Definitions read and written at once, where the broker does it in steps."""

from collections.abc import Mapping
from typing import TypeVar, cast

from penstock.base.policy import Policy, policy_from
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_export import exporting
from penstock.broker.admin.definitions_import import Imported, importing
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.broker import Broker

T = TypeVar("T")


def run_through(steps: Steps[T]) -> T:
    """All steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def import_definitions(broker: Broker, definitions: Row, vhost: str = "") -> Imported:
    return run_through(importing(broker, definitions, vhost))


def export_definitions(broker: Broker, product_version: str) -> tuple[Row, list[str]]:
    return run_through(exporting(broker, product_version))


def policies_in(exported: Mapping[str, object]) -> tuple[list[Policy], list[Policy]]:
    """The policies and operator policies in exported definitions."""
    policies = cast("list[Row]", exported["policies"])
    operators = [
        {**cast(Row, row["value"]), "name": row["name"], "vhost": row["vhost"]}
        for row in cast("list[Row]", exported["parameters"])
        if row["component"] == "operator_policy"
    ]
    return [policy_from(row) for row in policies], [policy_from(row) for row in operators]
