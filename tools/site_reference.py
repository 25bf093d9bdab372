"""Reference pages that only the site has: the HTTP API, the command line, error codes, metrics and log events.

The repository has the same in `openapi/`, `--help`, `docs/reference/errors.md` and the code, so these pages are not
committed.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
import yaml

from app.api.server.problem_responses import STATUS
from mirrorgate.cli.main import app
from mirrorgate.errors import Code
from tools.format_tables import CONTRACT
from tools.reference import WITHOUT_STATUS

REPOSITORY: Final = Path(__file__).resolve().parents[1]
RECORDED: Final = REPOSITORY / "tests" / "observability" / "recorded"
SOURCES: Final = ("app", "spark_jobs", "clients/python/mirrorgate", "packages")

_PROCESSES: Final = {
    "api": "API",
    "drain": "Drain",
    "mirror": "Delta mirror",
    "kafka_bridge": "Kafka bridge",
    "object_bridge": "Object bridge",
}
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def generated_pages() -> dict[str, str]:
    """Return the pages by their paths in docs/."""
    pages = {
        "reference/http-api.md": http_api(),
        "reference/cli.md": command_line(),
        "reference/metrics.md": metrics(),
        "reference/log-events.md": log_events(),
    }
    return pages | {f"errors/{code}.md": page_of_code(code) for code in Code}


def page_of_code(code: Code) -> str:
    """Return the page about an error code, the `type` of its problem documents."""
    status = "" if code.kind in WITHOUT_STATUS else f"HTTP status {int(STATUS[code.kind])}. "
    lines = [f"# {code}", "", f"{status}{code.meaning}", "", "## What to do", "", code.remedy, ""]
    for name, remedy in code.of_format.items():
        lines += [f"## For the format {name}", "", remedy, ""]
    return "\n".join([*lines, "[All error codes](../reference/errors.md)", ""])


def http_api() -> str:
    """Return the operations of the contract by their tags, each with its parameters, body and answers."""
    contract = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
    lines = [
        "# HTTP API",
        "",
        "Every operation of the contract. A gateway shows it at `/docs` and `/redoc`, with all models, and the file",
        "[mirrorgate.v1.yaml](../../openapi/mirrorgate.v1.yaml) has it for generators of clients.",
        "",
    ]
    for tag in contract["tags"]:
        lines += [f"## {tag['name'].capitalize()}", "", tag["description"], ""]
        for path, operations in contract["paths"].items():
            for method, operation in operations.items():
                if method != "parameters" and tag["name"] in operation["tags"]:
                    lines += _operation(path, method, operation, operations.get("parameters", []))
    return "\n".join(lines)


def _operation(path: str, method: str, operation: dict[str, Any], shared: list[dict[str, Any]]) -> Iterator[str]:
    yield from (f"### {operation['summary']}", "", f"`{method.upper()} {path}`", "", operation["description"], "")
    if parameters := [*shared, *operation.get("parameters", [])]:
        yield from ("| parameter | in | meaning |", "|---|---|---|")
        for one in parameters:
            required = "required: " if one.get("required") else ""
            yield f"| `{one['name']}` | {one['in']} | {required}{_cell(one.get('description', ''))} |"
        yield ""
    if body := operation.get("requestBody"):
        yield from (f"Body: {', '.join(f'`{kind}`' for kind in body['content'])}", "")
    yield from ("| status | answer |", "|---|---|")
    yield from (f"| {status} | {_cell(answer['description'])} |" for status, answer in operation["responses"].items())
    yield ""


def command_line() -> str:
    """Return every command with its help, arguments and options."""
    lines = ["# Command line", "", "Every command of `mirrorgate`, as its `--help` describes it.", ""]
    return "\n".join([*lines, *_commands("mirrorgate", typer.main.get_command(app))])


def _commands(name: str, command: Any) -> Iterator[str]:
    inside = getattr(command, "commands", {})
    if not inside:
        yield from (f"## {name}", "", re.sub(r"\f", "", command.help or ""), "")
        yield from ("| argument or option | default | meaning |", "|---|---|---|")
        for one in command.params:
            written = (
                ", ".join([*one.opts, *one.secondary_opts]) if one.param_type_name == "option" else one.name.upper()
            )
            shown = "" if one.default in (None, False) or callable(one.default) else f"`{one.default}`"
            yield f"| `{written}` | {shown} | {_cell(getattr(one, 'help', None) or '')} |"
        yield ""
    for title, one in inside.items():
        if not one.hidden:
            yield from _commands(f"{name} {title}", one)


def metrics() -> str:
    """Return the metrics of each process, as the tests recorded them at `/metrics`."""
    lines = ["# Metrics", "", "What each process serves at `/metrics`, in Prometheus' format.", ""]
    for process, title in _PROCESSES.items():
        text = (RECORDED / f"{process}.prom").read_text(encoding="utf-8")
        kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
        lines += [f"## {title}", "", "| metric | type | meaning |", "|---|---|---|"]
        for name, meaning in re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE):
            lines.append(f"| `{name}` | {kinds.get(name, '')} | {_cell(meaning)} |")
        lines.append("")
    return "\n".join(lines)


def log_events() -> str:
    """Return the events that the programs log: each with its levels and its fields."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for folder in SOURCES:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if event := _event(node):
                    name, level, fields = event
                    levels, known = found.setdefault(name, (set(), set()))
                    levels.add(level)
                    known.update(fields)
    lines = ["# Log events", "", "Each log line is one JSON object, with one of these names in `event`.", ""]
    lines += ["| event | level | fields |", "|---|---|---|"]
    for name, (levels, known) in sorted(found.items()):
        listed = ", ".join(f"`{field}`" for field in sorted(known))
        lines.append(f"| `{name}` | {', '.join(sorted(levels))} | {listed} |")
    return "\n".join([*lines, ""])


def _event(node: ast.AST) -> tuple[str, str, list[str]] | None:
    """Return name, level and fields of a call such as `log.info("api_stopped", port=port)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _LEVELS:
        return None
    first = node.args[0] if node.args else None
    if not isinstance(first, ast.Constant) or not re.fullmatch(r"[a-z]+(_[a-z]+)*", str(first.value)):
        return None
    return str(first.value), node.func.attr, [field.arg for field in node.keywords if field.arg]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
