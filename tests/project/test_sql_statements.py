"""Every SQL statement of staging is a constant of its module, with its purpose in the string below it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app.staging

MODULES = sorted(Path(app.staging.__file__).parent.rglob("*.py"))
STATEMENT = re.compile(r"\s*(ALTER|CREATE|DELETE|DROP|INSERT|LISTEN|LOCK|SELECT|SET|SHOW|UPDATE|WITH)\b")


def statements(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the string literals below a node that begin like SQL."""
    for found in ast.walk(node):
        if isinstance(found, ast.Constant) and isinstance(found.value, str) and STATEMENT.match(found.value):
            yield found


def is_purpose(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_module_names_its_statements_and_says_what_they_are_for(module: Path) -> None:
    body = ast.parse(module.read_text("utf-8")).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            assert not any(statements(node)) or is_purpose(following), f"line {node.lineno}: no purpose below it"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert [found.lineno for found in statements(node)] == [], "a statement inside a function"
