"""The compile list names files that exist and that keep to what compiles well."""

import ast

from tests.architecture.house import Module, compiled_files, functions, modules

# What mypyc turns into something slow, or into something that behaves differently.
ALLOWED_DECORATORS = {"final", "mypyc_attr", "override", "property", "staticmethod"}


def compiled_modules() -> list[Module]:
    wanted = set(compiled_files())
    return [module for module in modules() if module.path in wanted]


def test_listed_files_exist_once() -> None:
    listed = compiled_files()
    assert len(listed) == len(set(listed)), "a file is listed twice"
    missing = [str(path) for path in listed if not path.is_file()]
    assert not missing, f"on the list but not in the tree: {missing}"


def test_compiled_files_use_no_decorators_that_compile_badly() -> None:
    wrong = [
        f"{module.short}:{decorator.lineno} @{ast.unparse(decorator)}"
        for module in compiled_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if _name(decorator) not in ALLOWED_DECORATORS
    ]
    assert not wrong, "\n".join(wrong)


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).split(".")[-1]


def test_compiled_files_have_no_closures() -> None:
    wrong = [
        f"{module.short}:{inner.lineno}"
        for module in compiled_modules()
        for function in functions(module)
        for inner in ast.walk(function)
        if inner is not function
        and isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    assert not wrong, "\n".join(wrong)


def test_compiled_classes_are_not_protocols() -> None:
    wrong = [
        f"{module.short}:{node.lineno} {node.name}"
        for module in compiled_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and any(_name(base).split("[")[0] == "Protocol" for base in node.bases)
    ]
    assert not wrong, "\n".join(wrong)


def test_compiled_classes_declare_their_slots() -> None:
    """Without a compiler they are what keeps instances small and misspelt attributes out.

    Enums and exceptions are left out: they keep a dictionary in any case.
    """
    wrong = [
        f"{module.short}:{node.lineno} {node.name}"
        for module in compiled_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and not any(_is_exempt(base) for base in node.bases)
        and not any(_assigns_slots(statement) for statement in node.body)
    ]
    assert not wrong, "\n".join(wrong)


def _is_exempt(base: ast.expr) -> bool:
    return _name(base).endswith(("Enum", "Error", "Exception", "Fault"))


def _assigns_slots(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__slots__" for target in statement.targets
    )
