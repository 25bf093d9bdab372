"""Generated documents equal what the code makes: the contract, the schema, the statements and performance."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from openapi_spec_validator import OpenAPIV31SpecValidator

import app.staging
from app.local.embedded import PrivatePostgres
from benchmarks.reports.figure import Goal
from benchmarks.reports.report import PAGE, SIZING_PAGE, committed_page, committed_runs, page, sizing_page
from tests.benchmarks.results_samples import figure, growth, results
from tests.contract.reading import PROBLEM, load_contract, operations
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tools.openapi import CONTRACT, render_contract
from tools.schema import SCHEMA, render_schema


def test_the_committed_contract_is_the_one_of_the_app() -> None:
    assert CONTRACT.read_text(encoding="utf-8") == render_contract(), "run `make openapi` and commit the result"


def test_the_contract_is_valid_openapi() -> None:
    assert load_contract()["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(load_contract()).iter_errors()] == []


def test_every_problem_is_documented_as_problem_json_and_as_nothing_else() -> None:
    problem = {"$ref": "#/components/schemas/ProblemModel"}
    for operation in operations(load_contract()):
        for status, response in operation.responses.items():
            for media_type, described in response.get("content", {}).items():
                is_problem = described.get("schema") == problem
                assert is_problem == (media_type == PROBLEM), f"{operation} {status} {media_type}"
                assert not is_problem or int(status) >= 400, f"{operation} {status}"


def test_the_framework_documents_no_answer_that_the_app_never_gives() -> None:
    assert not load_contract()["components"]["schemas"].keys() & {"HTTPValidationError", "ValidationError"}
    for operation in operations(load_contract()):
        checked = any(parameter["schema"].get("type") != "string" for parameter in operation.parameters)
        if checked or operation.bodies:
            assert "400" in operation.responses, operation


UNEXPLAINED = """
    SELECT c.relname, coalesce(a.attname, '') FROM pg_class c
    JOIN (SELECT attrelid, attname, attnum FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped
          UNION ALL SELECT oid, NULL, 0 FROM pg_class) a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'mirrorgate'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND NOT EXISTS (
        SELECT FROM pg_description d
        WHERE d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = a.attnum)"""


def test_every_table_and_column_has_a_comment(engine: sa.Engine) -> None:
    assert sql.rows(engine, UNEXPLAINED) == []


@pytest.fixture(scope="module")
def migrated(postgres: PrivatePostgres, template_database: str) -> str:
    return create_database(postgres.url, "schema_as_migrated", template=template_database)


def test_the_committed_schema_is_the_one_of_the_migrations(migrated: str) -> None:
    assert SCHEMA.read_text(encoding="utf-8") == render_schema(migrated), "run `make schema` and commit the result"


def test_the_committed_schema_is_sql_that_makes_the_same_tables(postgres: PrivatePostgres) -> None:
    url = create_database(postgres.url, "schema_as_written")
    comments = re.compile(r"^ *-- .*\n", re.MULTILINE)
    text = SCHEMA.read_text(encoding="utf-8")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
    made = render_schema(url)
    assert comments.sub("", made) == comments.sub("", text)


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


def test_the_page_is_what_the_committed_results_render() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else None
    assert written == committed_page(), "run `python -m benchmarks.reports.report`"


def test_the_tables_of_the_sizing_page_are_what_the_committed_results_give() -> None:
    written = SIZING_PAGE.read_text(encoding="utf-8")
    assert written == sizing_page(written, committed_runs()), "run `python -m benchmarks.reports.report`"


def test_the_page_has_each_figure_beside_its_limit_with_machine_and_commit() -> None:
    text = page(results(figure(goal=Goal(0.5, at_least=True)), figure("small")), growth=None)
    assert "| Title of bulk | changes/s | 60 (50 to 70) | 100 (100 to 100) | a limit | 0.60 (0.50 to 0.70) |" in text
    assert "| Title of bulk | changes/s | 60 | 100 | 0.60 | ≥ 0.50 | yes |" in text
    assert "| Title of small |" in text
    assert "- Commit 0123456789, Python 3.11.7, Postgres 18.4, pyarrow 26.0.1.\n" in text
    assert "## Growth" not in text


def test_the_page_has_growth_with_its_exponents_and_plots() -> None:
    text = page(results(figure()), growth())
    assert "| tables, fed in turn | 1 | 100 | 0.00 | 1.00 |\n" in text
    assert "![Cost of a change by tables, fed in turn](performance-tables.svg)\n" in text
