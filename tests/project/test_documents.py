"""The lists in the documents match the code. `make docs` writes the tables of settings and error codes."""

import ast
import json
import re
from enum import EnumType
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.settings import PREFIX, Settings
from mirrorgate.errors import Code
from mirrorgate.errors.site import SITE
from tests.project.facts import REPOSITORY, direct_requirements
from tests.support.documents import examples
from tools.change_codes import CHANGE_CODES
from tools.limits import BEYOND
from tools.reference import DOCS, errors_tables, render_documents
from tools.seeds import read_documents
from tools.site_reference import generated_pages

EXAMPLE_PAGES = [
    REPOSITORY / "examples" / name / "README.md"
    for name in (".", "arcion-on-s3", "debezium-history", "generated-clients")
]
PAGES = [*sorted(REPOSITORY.glob("*.md")), *EXAMPLE_PAGES, *sorted(DOCS.rglob("*.md"))]
_EXAMPLES = [
    str(path.relative_to(REPOSITORY))
    for pattern in ("curl/*.sh", "python/*.py", "typescript/*.mts")
    for path in sorted((REPOSITORY / "examples").glob(pattern))
    if path.name != "debezium_history.py"
]
DECISIONS = sorted((DOCS / "contribute/decisions").glob("[0-9]*.md"))


def test_a_generated_table_is_the_one_of_the_code() -> None:
    written = {page: page.read_text(encoding="utf-8") for page in render_documents()}
    assert written == render_documents(), "run `make docs`, commit the result"


def test_the_tables_have_every_setting_and_every_error_code() -> None:
    settings = (DOCS / "reference/settings.md").read_text(encoding="utf-8")
    assert all(f"| `{PREFIX}{name.upper()}` |" in settings for name in Settings.model_fields)
    assert all(f"| [`{code}`](" in errors_tables() for code in Code)
    rows = [line for line in errors_tables().splitlines() if line.startswith("|")]
    assert all(line.count("|") == 5 for line in rows)


def test_the_codes_of_change_requests_are_those_that_their_way_through_the_code_names() -> None:
    modules = [path for part in ("formats", "ingest") for path in (REPOSITORY / "app" / part).rglob("*.py")]
    others = """
        api/auth/authenticator api/auth/dependencies api/limits api/exchange api/changes/endpoints
        api/changes/parameters api/server/request_parameters
        domain/model/change domain/model/names domain/rows/image_overlay domain/rows/key_changes domain/rows/row_layout
        domain/rows/from_arrow domain/rows/source_order domain/rows/typed_columns domain/rows/row_rules
        domain/rows/landing_rows domain/loads
    """
    modules += [REPOSITORY / "app" / f"{name}.py" for name in others.split()]
    modules += [REPOSITORY / "clients/python/mirrorgate" / name for name in ("avro_envelope.py", "parameters.py")]
    named = {Code[name] for path in modules for name in re.findall(r"\bCode\.([A-Z_]+)", path.read_text())}
    listed = [code for codes in CHANGE_CODES.values() for code in codes]
    assert len(set(listed)) == len(listed)
    # The schema's own rules, what the framework reports, and a fault of the gateway.
    beyond = {"bad_schema", "incompatible_schema", "request_timeout", "internal"}
    unavailable = {"database_unavailable", "commit_unknown", "table_busy", "table_too_new", "shutting_down"}
    assert {*listed} - beyond - unavailable <= named <= {*listed}


def test_every_setting_that_limits_requests_is_in_the_list_of_limits() -> None:
    listed = {name for limits in BEYOND.values() for name in limits}
    assert listed == {name for name in Settings.model_fields if re.match("max_(?!delay)|body_|min_body|key_", name)}


def test_the_options_of_tables_are_listed_with_their_values_and_defaults() -> None:
    text = (DOCS / "reference" / "options.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \[`(\w+)`\]\(#\1\) \| (.+?) \| .+ \|$", text, re.MULTILINE))
    expected = {}
    keyed = TableSchema((Column("id", ColumnType(TypeName.INT64), nullable=False),), ("id",))
    for name, default in DEFAULT_OPTIONS.of_new_table(keyed, ()).to_json().items():
        option_type = get_type_hints(TableOptions)[name]
        choices = [
            str(value) for one in get_args(option_type) or (option_type,) if isinstance(one, EnumType) for value in one
        ]
        values = choices if default in choices else [json.dumps(default), *choices]
        assert values[0] in (default, json.dumps(default))
        expected[name] = ", ".join(f"`{value}`" for value in values)
    assert listed == expected


def test_every_requirement_has_its_number() -> None:
    for document in read_documents():
        numbers = [requirement.number for requirement in document.requirements]
        assert numbers == list(range(1, len(numbers) + 1)), document.title


def test_every_test_that_a_requirement_names_exists() -> None:
    named = {test for document in read_documents() for entry in document.requirements for test in entry.tests}
    assert sorted(test for test in named if not _is_test(test)) == [], "correct them in tools/seeds.yaml: `make docs`"


def _is_test(test: str) -> bool:
    """Whether `tests/path.py::test_name` or `tests/path.py::test_name[sample]` is there, with its sample."""
    found = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)(?:\[(\w+)\])?", test)
    if found is None or not (module := REPOSITORY / found[1]).exists():
        return False
    return found[2] in _functions(module) and (found[3] is None or found[3] in _samples())


@cache
def _functions(module: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.FunctionDef)}


@cache
def _samples() -> set[str]:
    """Names of sample messages, of the functions that write the zones of other publishers, and of planted faults."""
    files = {path.stem for folder in ("tests/samples", "demo/samples") for path in (REPOSITORY / folder).rglob("*.*")}
    faults = [*(REPOSITORY / "tests/verify/faults").glob("*.py")]
    listed = {name for module in faults for name in re.findall(r'^ +"(\w+)": \(', module.read_text(), re.MULTILINE)}
    return files.union(listed, *map(_functions, [*faults, *(REPOSITORY / "tests/support/publishers").glob("*.py")]))


def test_every_direct_dependency_has_its_reason() -> None:
    reasons: dict[str, list[str]] = {}
    section = ""
    for line in (DOCS / "contribute/dependencies.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `(mirrorgate[\w\[\]-]*)`", line):
            section = heading[1]
        elif entry := re.fullmatch(r"\| `([\w.-]+)` \| \S.*\. \|", line):
            reasons.setdefault(section, []).append(entry[1])
    assert reasons == {place: [r.name for r in needed] for place, needed in direct_requirements().items()}


def test_every_decision_is_listed_under_its_title() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", (DOCS / "contribute/decisions/README.md").read_text(), re.MULTILINE
    )
    titles = [(path.name[:4], path.name, path.read_text().splitlines()[0].removeprefix("# ")) for path in DECISIONS]
    assert [(number, name, f"{number}: {title}") for number, name, title in listed] == titles


def test_the_architecture_page_lists_every_thread_by_its_name() -> None:
    page = (DOCS / "contribute/architecture.md").read_text(encoding="utf-8")
    named = r"""threading\.Thread\([^()]*name=f?"([\w-]+)|ThreadPoolExecutor\([^()]*"([a-z-]+)"\)"""
    found = {next(filter(None, names)) for source in _sources() for names in re.findall(named, source)}
    assert len(found) >= 20
    assert [name for name in sorted(found) if f"`{name}" not in page] == []


def test_the_protocol_page_defines_every_step_that_the_code_names() -> None:
    page = (DOCS / "contribute/publication-protocol.md").read_text(encoding="utf-8")
    defined = set(re.findall(r"^\| ([WR]\d) ", page, re.MULTILINE))
    named = {step for source in _sources() for step in re.findall(r"\b[WR][1-9]\b", source)}
    assert named <= defined == {f"W{step}" for step in range(1, 10)} | {f"R{step}" for step in range(1, 8)}


def _sources() -> list[str]:
    return [
        path.read_text()
        for part in ("app", "clients", "packages", "spark_jobs")
        for path in (REPOSITORY / part).rglob("*.py")
    ]


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_record_is_short_and_has_its_three_parts(record: Path) -> None:
    text = record.read_text()
    assert len(text.splitlines()) <= 36
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_every_link_into_the_repository_leads_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (document.parent / target).exists(), target


@pytest.mark.parametrize("document", sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", document.read_text(encoding="utf-8")):
        page = (document.parent / (target or document.name)).resolve().relative_to(DOCS).with_suffix("")
        assert anchor in _anchors(page.as_posix()), (target, anchor)


def test_the_installation_page_has_every_extra_that_is_not_for_development() -> None:
    page = (DOCS / "get-started/install.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(mirrorgate[\w\[\]-]*)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(direct_requirements().keys() - {"mirrorgate-gateway[dev]"})


def test_the_changelog_has_a_section_and_a_link_for_each_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, *releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert unreleased == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases)
    assert releases == sorted(releases, key=lambda r: [int(n) for n in r[1 : r.index("]")].split(".")], reverse=True)
    named = re.findall(r"^## (\[[^\]]+\])", text, re.MULTILINE)
    assert re.findall(r"^(\[[^\]]+\]): https://", text, re.MULTILINE) == named, "each version needs its link"


_RUN = """
    send/python send/dataframes send/retry-safely troubleshoot/rejected get-started/fabric send/webhooks
    send/http send/dry-run reference/arcion reference/arcion-csv
    reference/replicate reference/replicate-layouts reference/source-order reference/debezium
    reference/debezium-values reference/rows reference/arrow tutorials/postgres-to-fabric
    tutorials/sql-server-to-fabric tutorials/nightly-csv
"""
FOLLOWED = {
    "start": ["README.md", "docs/get-started/try-it-locally.md"],
    "examples": [
        "examples/README.md",
        "examples/arcion-on-s3/README.md",
        "examples/tables.yaml",
        "examples/orders.ndjson",
        *_EXAMPLES,
    ],
    **{name: [f"docs/{name}.md"] for name in _RUN.split()},
    "generated-clients": [
        "examples/generated-clients/README.md",
        "examples/generated-clients/orders.py",
        "examples/generated-clients/orders.mts",
    ],
    "tables": [
        str(page.relative_to(REPOSITORY))
        for name in ("tables", "explanation")
        for page in sorted((DOCS / name).glob("*.md"))
        if examples(page)
    ],
}
"""The pages whose commands a reader runs on one gateway, each with its files."""

_SCHEMA = re.compile(
    r"""(?:/v1/tables/|\bmirror\(\w+,\ "
        |\btable=["']?|["']table["']:\ ["']|--table\ |\btables\ \w+\ |-\ name:\ |\btable:\ ["'])(\w+)\.\w
        |["']?schema["']?:\ ["'](\w+)["']""",
    re.VERBOSE,
)
_IDENTITY = re.compile(
    r"""(?:Idempotency-Key|Mirrorgate-Producer(?!-)|(?:idempotency_key|producer)=|Id":\ )["']?[:=]?\ ?["']?
        (?!null)([\w/-]+)""",
    re.VERBOSE,
)


def test_no_two_pages_use_one_schema_or_one_name_of_requests() -> None:
    """A page that registers another page's table with other types would break it for who reads both."""
    owners: dict[str, set[str]] = {}
    for page, files in FOLLOWED.items():
        text = "\n".join(_code(REPOSITORY / file) for file in files)
        names = {name.lower() for found in _SCHEMA.findall(text) for name in found if name}
        assert names or page == "send/webhooks", f"{page} has no table"
        for name in names | {f"request {name}" for name in _IDENTITY.findall(text)}:
            owners.setdefault(name, set()).add(page)
    assert {name: pages for name, pages in owners.items() if len(pages) > 1} == {}


def test_pages_run_only_programs_that_make_up_installs() -> None:
    code = "\n".join(_code(REPOSITORY / file) for files in FOLLOWED.values() for file in files)
    assert set(re.findall(r"\.venv/bin/([\w-]+)", code)) == {"mirrorgate", "python"}


def _code(file: Path) -> str:
    """Return the code blocks of a page, or a whole program."""
    text = file.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE)) if file.suffix == ".md" else text


def test_every_address_of_the_site_is_a_page_with_the_heading() -> None:
    """Addresses in texts, contracts and deployments, and pages that a text names by their paths (`with_addresses`)."""
    files = [
        path
        for folder in (
            "app",
            "clients/python",
            "deploy",
            "docs",
            "examples",
            "openapi",
            "packages",
            "spark_jobs",
            "tools",
        )
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".py", ".html", ".json", ".yaml", ".md", ".mts", ".service", ".target", ".toml"}
        if "decisions" not in path.parts and "node_modules" not in path.parts
    ]
    pages = {name.removesuffix(".md") for name in generated_pages()}
    wrong = set()
    for path in [*files, *REPOSITORY.glob("*.yaml"), *REPOSITORY.glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        named = re.findall(rf"{re.escape(SITE)}([\w/-]*)(?:#([\w-]+))?", text)
        named += re.findall(r"\bdocs/([\w/-]+)\.md(?:#([\w-]+))?", text)
        for name, anchor in named:
            page = name.rstrip("/") or "index"
            if page not in pages and (not (DOCS / f"{page}.md").exists() or anchor not in {"", *_anchors(page)}):
                wrong.add(f"{path.relative_to(REPOSITORY)}: {name}#{anchor}")
    assert sorted(wrong) == []


@cache
def _anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_every_path_that_a_page_names_exists(document: Path) -> None:
    places = "app|benchmarks|demo|docs|examples|migrations|openapi|requirements|spark_jobs|tests|tools"
    for path in re.findall(rf"`((?:{places})/[\w./-]*)`", document.read_text(encoding="utf-8")):
        assert (REPOSITORY / path).exists(), path
