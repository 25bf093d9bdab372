"""The tree stays readable: small folders, short modules, one word for limits, packages that say what is in them."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.project.facts import REPOSITORY

MAX_MODULES: Final = 25
"""Modules of one folder, without `__init__.py`."""
MAX_LINES: Final = 600
LISTS: Final = frozenset({"clients/python/mirrorgate/errors/codes.py"})
"""Modules that may be longer: the members of an enumeration cannot be in several modules."""
MIN_LINES: Final = 120
"""A shorter module whose only importer is beside it belongs into that module."""
MIN_DOCSTRING_LINES: Final = 3

ROOTS: Final = (
    "app", "clients", "packages", "spark_jobs", "migrations",
    "benchmarks", "tests", "tools", "demo", "examples", "docker",
)  # fmt: skip
GROWS_BY_DESIGN: Final = frozenset({"migrations/versions"})
"""Folders that gain a module with each version."""

PRODUCT: Final = ("app", "clients", "packages", "spark_jobs")
_SOURCES: Final = re.compile(r"^(clients/python|packages/\w+)/")
"""Folders of distributions, which are no packages."""
ALONE: Final = frozenset(
    {
        "app/formats/avro/values.py",  # imported as a module, by its name, for each logical type
        "app/cli/tables/table_rows.py",  # loads PyArrow, which only one command needs
        "spark_jobs/spark/worker_daemon.py",  # Spark starts it by its name
    }
)
"""Short modules that stay apart, each with its reason."""

TOP_FOLDERS: Final = {*ROOTS, "deploy", "docs", "openapi", "requirements", ".ci", ".devcontainer", ".github"}

_ANOTHER_WORD_FOR_A_LIMIT: Final = re.compile(
    r"_?(MOST|LONGEST|LARGEST|FEWEST|FEW|MANY|LEAST|SHORTEST|SMALLEST)(_[A-Z0-9_]+)?"
)


def modules_of(root: str) -> list[Path]:
    return sorted((REPOSITORY / root).rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def dotted(path: Path) -> str:
    return _SOURCES.sub("", named(path)).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def imported_names(path: Path) -> Iterator[str]:
    """Modules that a module imports, and what it imports from packages, which can be modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def module_constants(module: Path) -> Iterator[str]:
    for statement in ast.parse(module.read_text(encoding="utf-8")).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def public_types(module: Path) -> Iterator[str]:
    """Classes and type aliases of a module that others may import."""
    for statement in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ClassDef):
            name = statement.name
        elif isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation) == "TypeAlias":
            name = ast.unparse(statement.target)
        else:
            continue
        if not name.startswith("_"):
            yield name


def docstring_lines(package: Path) -> int:
    docstring = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    return len(docstring.splitlines())


def reject(offenders: set[str]) -> None:
    assert not offenders, "\n".join(["", *sorted(offenders)])


def committed(*options: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *options], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="only a clone tells what is committed")
def test_nothing_that_a_run_leaves_behind_is_committed() -> None:
    ignored = set(committed("--cached", "--ignored", "--exclude-standard"))
    reject(ignored | {name.split("/")[0] for name in committed() if "/" in name} - TOP_FOLDERS)


@pytest.mark.parametrize("root", ROOTS)
def test_no_folder_has_many_modules(root: str) -> None:
    folders = [path.parent for path in modules_of(root) if path.name != "__init__.py"]
    counts = {named(folder): folders.count(folder) for folder in folders if named(folder) not in GROWS_BY_DESIGN}
    reject(
        {f"{folder}: {count} modules, split it by subject" for folder, count in counts.items() if count > MAX_MODULES}
    )


@pytest.mark.parametrize("root", ROOTS)
def test_no_module_is_long(root: str) -> None:
    counts = {named(path): line_count(path) for path in modules_of(root) if named(path) not in LISTS}
    reject({f"{module}: {count} lines, split it by subject" for module, count in counts.items() if count > MAX_LINES})


def test_a_short_module_has_an_importer_elsewhere() -> None:
    modules = {dotted(path): path for root in PRODUCT for path in modules_of(root)}
    importers: dict[Path, set[Path]] = {path: set() for path in modules.values()}
    for path in modules.values():
        for name in imported_names(path):
            if name in modules:
                importers[modules[name]].add(path)
    reject(
        {
            f"{named(path)}: {line_count(path)} lines for {named(*users)} alone, move them there"
            for path, users in importers.items()
            if path.name != "__init__.py" and line_count(path) < MIN_LINES and named(path) not in ALONE
            if len(users) == 1 and not any(user.name == "__init__.py" for user in users)
            if {user.parent for user in users} == {path.parent}
        }
    )


@pytest.mark.parametrize("root", ROOTS)
def test_limits_are_called_max_or_min(root: str) -> None:
    reject(
        {
            f"{named(module)}: {name}, name it MAX_… or MIN_…"
            for module in modules_of(root)
            for name in module_constants(module)
            if _ANOTHER_WORD_FOR_A_LIMIT.fullmatch(name)
        }
    )


@pytest.mark.parametrize("root", PRODUCT)
def test_every_package_says_what_is_in_it(root: str) -> None:
    packages = [path for path in modules_of(root) if path.name == "__init__.py"]
    short = [named(package) for package in packages if docstring_lines(package) < MIN_DOCSTRING_LINES]
    reject({f"{package}: say what is in the package, and how data passes" for package in short})


def test_a_name_is_the_name_of_one_type_of_the_gateway() -> None:
    """A reader who has met `Outcome` knows what it is wherever it comes next."""
    places: dict[str, list[str]] = {}
    for module in [*modules_of("app"), *modules_of("spark_jobs")]:
        for name in public_types(module):
            places.setdefault(name, []).append(named(module))
    reject({f"{name}: {', '.join(modules)}" for name, modules in places.items() if len(modules) > 1})
