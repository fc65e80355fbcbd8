"""`penstock policies`: rules for queues and exchanges by their names, in a running broker."""

import json
from typing import Any, Final

import click
from msgspec import Struct

from penstock.base.errors import OperatorError
from penstock.base.policy import APPLY_TO, shown
from penstock.cli.asking import TABLE, Listed, RunningBroker, asking, print_json, print_rows
from penstock.cli.objects import show_row
from penstock.cli.tables import FAINT, columns, console, say, show, table

POLICIES: Final = Listed({"policies": Struct}, is_sorted=False)


@click.group(invoke_without_command=True)
@click.pass_context
@asking
@click.option("--vhost", default="", help="Only this virtual host.")
def policies(context: click.Context, broker: RunningBroker, vhost: str) -> None:
    """List policies and operator policies, in the order in which they count.

    Of the policies whose pattern is found in a queue's name one counts, the first; of the operator
    policies another one. Together with the queue's own arguments the smaller number counts.
    """
    if context.invoked_subcommand is None:
        _list(broker, vhost, (False, True))


@policies.command("list")
@asking
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--operator", is_flag=True, help="Operator policies only.")
def list_(broker: RunningBroker, vhost: str, operator: bool) -> None:
    """The same; with --operator the operator policies alone."""
    _list(broker, vhost, (True,) if operator else (False, True))


@policies.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition")
@asking
@click.option("--vhost", default="/", show_default=True, help="Where it applies.")
@click.option("--priority", default=0, show_default=True, help="The highest that matches counts.")
@click.option("--apply-to", type=click.Choice(APPLY_TO), default="all", show_default=True)
@click.option("--operator", is_flag=True, help="An operator policy.")
def set_(
    name: str,
    pattern: str,
    definition: str,
    broker: RunningBroker,
    vhost: str,
    priority: int,
    apply_to: str,
    operator: bool,
) -> None:
    """Put the policy NAME in force for every name in which PATTERN is found, at once.

    DEFINITION is a JSON object with the keys of RabbitMQ's policies, and ours:
    penstock policies set short '^logs\\.' '{"max-length": 1000, "overflow": "backpressure"}'
    """
    policy = {
        "vhost": vhost,
        "name": name,
        "pattern": pattern,
        "apply-to": apply_to,
        "definition": _parsed(definition),
        "priority": priority,
    }
    answer = _ask(broker, {"do": "set", "policy": policy, "operator": operator})
    if broker.form != TABLE:
        broker.print(answer)
        return
    screen = console()
    say(screen, f"{_kind(operator)} '{name}' is set{_changed(answer)}")
    notes = answer["notes"]
    assert isinstance(notes, list), "the broker answers so"
    for note in notes:
        say(screen, str(note), FAINT)


@policies.command()
@click.argument("name")
@asking
@click.option("--vhost", default="/", show_default=True, help="Where it applies.")
@click.option("--operator", is_flag=True, help="An operator policy.")
def clear(name: str, broker: RunningBroker, vhost: str, operator: bool) -> None:
    """Take the policy NAME out of force, at once."""
    question = {"do": "clear", "vhost": vhost, "name": name, "operator": operator}
    answer = _ask(broker, question)
    if broker.form != TABLE:
        broker.print(answer)
    else:
        say(console(), f"{_kind(operator)} '{name}' is cleared{_changed(answer)}")


policies.add_command(clear, "remove")


@policies.command("show")
@click.argument("name")
@asking
@click.option("--vhost", default="/", show_default=True, help="Where it applies.")
@click.option("--operator", is_flag=True, help="An operator policy.")
def show_(name: str, broker: RunningBroker, vhost: str, operator: bool) -> None:
    """Everything about the policy NAME."""
    question = {"op": "policies", "do": "list", "vhost": vhost, "operator": operator}
    rows: Any = broker.pages(question, POLICIES, None)["policies"]
    for row in rows:
        if row["name"] == name:
            show_row(broker, row)
            return
    raise OperatorError(f"no {_kind(operator)} '{name}' in vhost '{vhost}'")


@policies.command()
@asking
def export(broker: RunningBroker) -> None:
    """Print all of both kinds as JSON, in the form of RabbitMQ's exported definitions."""
    print_json(_ask(broker, {"do": "export"}))


def _ask(broker: RunningBroker, question: dict[str, object]) -> dict[str, object]:
    return broker.ask({"op": "policies", **question})


def _parsed(definition: str) -> object:
    try:
        return json.loads(definition)
    except (RecursionError, ValueError) as error:
        raise OperatorError(
            f"the definition is not JSON: {error}; write it as '{{\"max-length\": 1000}}'"
        ) from error


def _kind(is_operator: bool) -> str:
    return "operator policy" if is_operator else "policy"


def _changed(answer: dict[str, object]) -> str:
    if answer["changed"] is None:
        # Over HTTP the broker does not say.
        return ""
    changed, left = int(str(answer["changed"])), int(str(answer["left"]))
    things = "1 queue or exchange goes" if changed == 1 else f"{changed} queues and exchanges go"
    later = f", {left} are looked at in a moment" if left else ""
    return f"; {things} by other rules now{later}"


def _list(broker: RunningBroker, vhost: str, kinds: tuple[bool, ...]) -> None:
    found: dict[str, list[dict[str, object]]] = {}
    for is_operator in kinds:
        question = {"op": "policies", "do": "list", "vhost": vhost, "operator": is_operator}
        rows = broker.pages(question, POLICIES, None)["policies"]
        assert isinstance(rows, list), "the broker answers so"
        found["operator_policies" if is_operator else "policies"] = rows
    if broker.form == "json":
        print_json(found)
        return
    if broker.form != TABLE:
        every = [row | {"kind": key} for key, rows in found.items() for row in rows]
        print_rows(every, ["kind", *(key for row in every for key in row)])
        return
    screen = console()
    for key, rows in found.items():
        if rows:
            shown_as = (
                f"VHOST:name:3 {key.upper()}:name PRIORITY:number:1 APPLY_TO::2 PATTERN:prose"
            )
            show(
                screen, table(columns(f"{shown_as} DEFINITION:prose"), [_row(row) for row in rows])
            )
    if not any(found.values()):
        say(screen, "no policies")


def _row(row: dict[str, object]) -> list[str]:
    definition = row["definition"]
    assert isinstance(definition, dict), "the broker answers so"
    return [
        str(row["vhost"]),
        str(row["name"]),
        str(row["priority"]),
        str(row["apply-to"]),
        str(row["pattern"]),
        ", ".join(f"{key} {shown(value)}" for key, value in definition.items()),
    ]
