"""Every numbered scenario has a test under its number, in both forms where it has two; what is
missing is named here with its reason."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
LAST = 120
TWO_FORMS = frozenset((
    5, 8, 9, 12, 13, 18, 19, 26, 27, 29, 33, 34, 37, 46, 47, 49, 50, 61, 66, 69, 70, 71, 74, 79, 82,
    85, 86, 89, 105, 109, 113,
))  # fmt: skip
"""Where RabbitMQ does one thing [R] and our default another [N]. What is said of RabbitMQ 1.8 alone
(55, 57, 58, 62) has one form: no profile emulates that."""
SIGNS = {
    "R": ("[R]", "RABBITMQ", "rabbitmq", "SYNDICATE", "syndicate", "PROFILES"),
    "N": ("[N]", "PENSTOCK", "penstock", "PROFILES"),
}
NAME = re.compile(r"test_scenario_(\d+)(?:_([rn]))?_?")


def forms_of(function: ast.FunctionDef, text: str, constants: dict[str, str]) -> set[str]:
    """By what it says of itself: its name, its docstring, and the profiles it runs under."""
    said = ast.get_source_segment(text, function) or ""
    for decorator in function.decorator_list:
        said += " " + (ast.get_source_segment(text, decorator) or "")
    # Constants may be made of constants.
    for _ in range(2):
        names = set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", said))
        said += " " + " ".join(constants[name] for name in names if name in constants)
    found = {form for form, signs in SIGNS.items() if any(sign in said for sign in signs)}
    match = NAME.match(function.name)
    if match is not None and match[2] is not None:
        found.add(match[2].upper())
    return found


def scenarios_of(text: str) -> Iterator[tuple[int, set[str]]]:
    """(number, forms) of every scenario test in a file."""
    tree = ast.parse(text)
    constants = {
        target.id: ast.get_source_segment(text, node.value) or ""
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            match = NAME.match(node.name)
            if match is not None:
                yield int(match[1]), forms_of(node, text, constants)


@cache
def forms_by_number() -> dict[int, set[str]]:
    """The forms of every number that has a test."""
    found: dict[int, set[str]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for number, forms in scenarios_of(path.read_text(encoding="utf-8")):
            found.setdefault(number, set()).update(forms)
    return found


def test_every_number_has_a_test() -> None:
    missing = sorted(set(range(1, LAST + 1)) - forms_by_number().keys())
    assert not missing, f"no test_scenario_NN in tests/spec for {missing}"


def test_there_are_no_other_numbers() -> None:
    assert not forms_by_number().keys() - set(range(1, LAST + 1))


@pytest.mark.parametrize("number", sorted(TWO_FORMS))
def test_a_scenario_with_two_forms_is_tested_in_both(number: int) -> None:
    missing = {"R", "N"} - forms_by_number().get(number, set())
    assert not missing, f"scenario {number} has no test of its form {sorted(missing)}"


def test_a_form_that_is_missing_is_noticed() -> None:
    text = 'ONLY = ["rabbitmq-4"]\n@each(ONLY)\ndef test_scenario_07_words() -> None:\n    pass\n'
    assert list(scenarios_of(text)) == [(7, {"R"})]
