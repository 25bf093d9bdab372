"""Write the generated tables of the pages in docs/: `make docs`.

A page keeps its own text before and after the two comments `BEGIN` and `END`; what is between them is generated. A test
compares the committed pages with the code.
"""

import json
import re
from enum import EnumType
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer
import yaml
from pydantic.fields import FieldInfo

from app.api.schemas.tables import RegisterTable
from app.api.server.problem_responses import STATUS
from app.domain.fabric import STATES
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.settings import PREFIX
from app.settings.model import SUBJECTS as SETTINGS
from mirrorgate.cli.main import app
from mirrorgate.errors import Kind
from mirrorgate.errors.codes import KEPT
from mirrorgate.errors.codes import SUBJECTS as ERRORS
from mirrorgate.errors.site import page_of_code
from mirrorgate_bridge.kafka.settings import BridgeSettings
from mirrorgate_bridge.objects.settings import ObjectsSettings
from mirrorgate_bridge.settings_file import Section
from mirrorgate_zone.emulator.exercises import EXERCISES, STEPS
from mirrorgate_zone.emulator.faults import FaultRates
from mirrorgate_zone.verify.codes import SUBJECTS as FINDINGS
from tools.format_tables import parameters_table, types_tables
from tools.limits import limits_tables
from tools.seeds import seeds_tables

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DOCS: Final = REPOSITORY / "docs"
ALERTS: Final = REPOSITORY / "deploy" / "prometheus" / "alerts.yaml"
BEGIN: Final = "<!-- Written by `make docs`. -->\n"
END: Final = "<!-- End of what `make docs` wrote. -->\n"

FORMATS: Final = ("arcion", "debezium", "replicate", "rows")
"""Formats with a page of their name, which has the query parameters of the endpoint."""

WITHOUT_STATUS: Final = frozenset({Kind.MISCONFIGURED})
"""Kinds that end a command or keep a process from starting, so that no request gets them."""


def errors_tables() -> str:
    """Return the error codes as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, codes in ERRORS.items():
        lines = [f"## {subject}", "", "| code | HTTP status | meaning | what to do |", "|---|---|---|---|"]
        for code in codes:
            status = "" if code.kind in WITHOUT_STATUS else int(STATUS[code.kind])
            remedies = [code.remedy, *(f"For {name}: {remedy}" for name, remedy in code.of_format.items())]
            lines.append(f"| [`{code}`]({page_of_code(code)}) | {status} | {code.meaning} | {' '.join(remedies)} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def settings_tables() -> str:
    """Return the settings as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, settings in SETTINGS.items():
        lines = [f"## {subject}", "", "| variable | default | meaning |", "|---|---|---|"]
        for name, field in settings.model_fields.items():
            default = "" if field.default is None else f"`{getattr(field.default, 'value', field.default)}`"
            description = " ".join((field.description or "").split())
            lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {description} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def findings_tables() -> str:
    """Return the findings of `verify` as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, codes in FINDINGS.items():
        lines = [f"## {subject}", "", "| code | severity | meaning | what to do |", "|---|---|---|---|"]
        lines += [f"| `{code}` | {code.severity} | {code.meaning} | {code.remedy} |" for code in codes]
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def emulator_tables() -> str:
    """Return the faults of the emulator, its rules with their sources, and its differences, as Markdown."""
    declared = yaml.safe_load((Path(__file__).parent / "emulator.yaml").read_text(encoding="utf-8"))
    lines = ["## List of faults", "", "| fault | without it | effect |", "|---|---|---|"]
    for name, field in FaultRates.model_fields.items():
        lines.append(f"| `{name}` | `{json.dumps(field.default)}` | {' '.join((field.description or '').split())} |")
    lines += ["", "## Rules and their sources", "", "| rule | source |", "|---|---|"]
    lines += [f"| {rule} | {source} |" for rule, source in declared["rules"].items()]
    lines += ["", "## Where it differs from Fabric", "", "| subject | emulator | Fabric |", "|---|---|---|"]
    lines += [f"| {subject} | {ours} | {fabrics} |" for subject, (ours, fabrics) in declared["differences"].items()]
    return "\n".join(lines) + "\n"


def certify_tables() -> str:
    """Return the steps and the exercises of `mirrorgate certify`, as Markdown."""
    lines = ["## Steps", "", "| step | what it publishes |", "|---|---|"]
    lines += [f"| `{step}` | {about} |" for step, about in STEPS.items()]
    lines += ["", "## Exercises", "", "| exercise | what happens, and what has to be true | source |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.about} | {one.source} |" for one in EXERCISES]
    return "\n".join(lines) + "\n"


GUIDES: Final = {
    "partial_updates": "tables/partial-updates",
    "new_columns": "tables/change-columns",
    "source_order": "reference/source-order",
    "sources": "tables/define#source-names",
    "dead_letters": "troubleshoot/rejected",
    "exclude": "tables/mask-and-filter",
    "columns": "tables/change-columns",
    "row_images": "explanation/row-images",
    "audit_columns": "tables/history-and-deletes",
    "history": "tables/history-and-deletes",
    "deletes": "tables/history-and-deletes",
    "reload": "tables/reload",
    "rename": "tables/change-columns",
    "constants": "tables/mask-and-filter",
    "masks": "tables/mask-and-filter",
    "derive": "tables/derive",
    "filter": "tables/mask-and-filter",
}
"""The page and heading in docs/ that explain an option, for options that have one."""


def options_tables() -> str:
    """Return the table options as Markdown: a table of all, then a section for each option."""
    models = RegisterTable.model_json_schema()["$defs"]
    keyed = TableSchema((Column("id", ColumnType(TypeName.INT64), nullable=False),), ("id",))
    defaults = DEFAULT_OPTIONS.of_new_table(keyed, ()).to_json()
    lines = ["| option | values, default first | meaning |", "|---|---|---|"]
    sections = []
    for name, option in models["TableOptions"]["properties"].items():
        first, *details = option["description"].split("\n\n")
        values = ", ".join(f"`{value}`" for value in _values(option, defaults[name], models))
        lines.append(f"| [`{name}`](#{name}) | {values} | {' '.join(first.split())} |")
        parts = [f"## `{name}`", f"{values}", first, *details]
        if members := _members(option, models):
            parts.append("\n".join(["| member | meaning |", "|---|---|", *members]))
        if guide := GUIDES.get(name):
            page, _, anchor = guide.partition("#")
            title = page.rpartition("/")[2].replace("-", " ").capitalize()
            parts.append(f"Guide: [{title}](../{page}.md{anchor and '#'}{anchor})")
        sections.append("\n\n".join(parts))
    return "\n".join(lines) + "\n\n" + "\n\n".join(sections) + "\n"


def _referenced(schema: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """Return the model that a schema refers to, directly, as null's alternative or as the value of a map."""
    for part in (schema, *schema.get("anyOf", ()), schema.get("additionalProperties", False)):
        if isinstance(part, dict) and "$ref" in part:
            found: dict[str, Any] = models[part["$ref"].rpartition("/")[2]]
            return found
    return {}


def _values(option: dict[str, Any], default: Any, models: dict[str, Any]) -> list[str]:
    choices: list[str] = _referenced(option, models).get("enum", [])
    written = default if default in choices else json.dumps(default)
    if isinstance(default, dict):
        written = json.dumps({})
    return [written, *(value for value in choices if value != default)]


def _members(option: dict[str, Any], models: dict[str, Any]) -> list[str]:
    members = _referenced(option, models).get("properties", {})
    return [f"| `{name}` | {' '.join(member['description'].split())} |" for name, member in members.items()]


def bridge_tables(model: type[Section]) -> str:
    """Return the settings of a bridge's file as Markdown: a table of its sections, then one of its list of rules."""
    lines, lists = _setting_rows(model, "")
    head = ["| setting | default | meaning |", "|---|---|---|"]
    tables = ["\n".join([*head, *lines])]
    for name, entry in lists.items():
        tables += [f"Of each entry in `{name}`:", "\n".join([*head, *_setting_rows(entry, "")[0]])]
    return "\n\n".join(tables) + "\n"


def _setting_rows(model: type[Section], prefix: str) -> tuple[list[str], dict[str, type[Section]]]:
    """Return a row for each setting, those of inner sections included, and the sections that are lists."""
    rows: list[str] = []
    lists: dict[str, type[Section]] = {}
    for name, field in model.model_fields.items():
        parts = [field.annotation, *get_args(field.annotation)]
        inner = next((part for part in parts if isinstance(part, type) and issubclass(part, Section)), None)
        if inner is None:
            rows.append(f"| `{prefix}{name}` | {_written_default(field)} | {_setting_meaning(field)} |")
        elif get_origin(field.annotation) is tuple:
            lists[name] = inner
            rows.append(f"| `{name}` | required | List of the entries below. |")
        else:
            rows += _setting_rows(inner, f"{prefix}{name}.")[0]
    return rows, lists


def _setting_meaning(field: FieldInfo) -> str:
    """Return the description, and the values of a setting that has a few."""
    text = " ".join((field.description or "").split())
    choices = field.annotation
    if isinstance(choices, EnumType):
        values = tuple(choices.__members__.values())
    else:
        values = get_args(choices) if get_origin(choices) is Literal else ()
    return f"{text} One of {', '.join(f'`{value}`' for value in values)}." if values else text


def _written_default(field: FieldInfo) -> str:
    """Return a default as a file has it: durations are floats, in seconds; integers of a MiB or more are sizes."""
    if field.is_required():
        return "required"
    match field.default:
        case None | "" | () | {}:
            return ""
        case float(seconds):
            short = f"{seconds * 1000:g} ms" if 0 < seconds < 1 else f"{seconds:g} s"
            return f"`{seconds / 60:g} m`" if seconds > 60 else f"`{short}`"
        case int(number) if number >= 2**20:
            return f"`{number // 2**20} MiB`"
        case tuple(values):
            return ", ".join(f"`{value}`" for value in values)
        case value:
            return f"`{value}`"


RUNBOOKS: Final = {
    "TableQuarantined": "quarantined.md",
    "LagOld": "../operate/sizing.md",
    "BacklogNearlyFull": "too-many-requests.md#backlog_full",
    "BacklogFull": "too-many-requests.md#backlog_full",
    "DeadLettersWaiting": "rejected.md",
    "ChangesMissing": "rows-differ.md#changes-are-missing",
    "LoadIdle": "../tables/reload.md#if-something-fails",
    "ApiNotWriting": "faults.md#postgres-is-unreachable",
    "DatabaseAway": "faults.md#postgres-is-unreachable",
    "ApiErrors": "too-many-requests.md",
    "MemoryBudgetFull": "too-many-requests.md#overloaded",
    "ResourceLow": "faults.md#the-landing-disk-is-full",
    "NoDrain": "faults.md#no-drain-is-running",
    "DrainWaiting": "faults.md#the-landing-zone-is-unreachable",
    "DrainStuck": "faults.md#a-drain-ends-with-spark_failed",
    "MaintenanceFailing": "faults.md#retention-does-not-free-space",
    "StorageFailing": "../reference/errors.md#publication",
    "MirrorStopped": "../reference/errors.md#the-delta-mirror",
    "FabricPaused": "../operate/fabric-database.md#a-paused-capacity",
    "FabricDatabaseFailed": "../operate/fabric-database.md#stop-and-start",
    "FabricTableFailed": "../operate/fabric-database.md#a-failed-table",
    "BridgePartitionStopped": "../send/kafka.md",
    "BridgeTableStopped": "../send/object-storage.md",
}
"""The page that says more about an alert, without the prefix `Mirrorgate` of its name."""


def alerts_sections() -> str:
    """Return the alerts of Prometheus as Markdown: a heading for each group and each alert, as `runbook_url` needs."""
    sections = []
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        subject = group["name"].removeprefix("mirrorgate-")
        sections.append(f"## {subject.upper() if subject == 'api' else subject.capitalize()}")
        for rule in group["rules"]:
            minutes = int(rule["for"].removesuffix("m"))
            lasting = "1 minute" if minutes == 1 else f"{minutes} minutes"
            more = RUNBOOKS.get(rule["alert"].removeprefix("Mirrorgate"))
            text = f"{_without_template(rule['annotations']['summary'])}. {rule['annotations']['description']}"
            sections += [
                f"### {rule['alert']}",
                f"**{rule['labels']['severity'].capitalize()}**, after {lasting} of `{rule['expr']}`.",
                text + (f" [More]({more})." if more else ""),
            ]
    return "\n\n".join(sections) + "\n"


def _without_template(summary: str) -> str:
    """Return an alert's summary with the names of labels in place of Prometheus' template."""
    choice = re.sub(
        r"{{ if .*? }}(.*?){{ else }}(.)(.*?){{ end }}",
        lambda both: f"{both[1]} or {both[2].lower()}{both[3]}",
        summary,
    )
    optional = re.sub(r"{{ with \$labels\.(\w+) }}(.*?){{ \. }}(.*?){{ end }}", r"\2*\1*\3", choice)
    return re.sub(r"{{ \$(?:labels\.)?(\w+)[^}]* }}", r"*\1*", optional)


def kept_messages_table() -> str:
    """Return the codes of messages that can become dead letters as a Markdown table."""
    lines = ["| code | meaning |", "|---|---|"]
    lines += [
        f"| [`{code}`]({page_of_code(code)}) | {code.meaning} |"
        for codes in ERRORS.values()
        for code in codes
        if code in KEPT
    ]
    return "\n".join(lines) + "\n"


OPERATIONS: Final = [
    "pause",
    "resume",
    "flush",
    "drop",
    "recreate",
    "rename",
    "rebuild",
    "repair",
    "release",
    "backfill-images",
]
"""Commands of `mirrorgate tables` that act on a table's present generation."""


def operations_table() -> str:
    """Return what each operation on a table does, in the words of its help, as a Markdown table."""
    commands: Any = typer.main.get_command(app)
    tables = commands.commands["tables"].commands
    lines = ["| `mirrorgate tables …` | effect |", "|---|---|"]
    for name in OPERATIONS:
        first, *_ = tables[name].help.split("\n\n")
        lines.append(f"| `{name}` | {' '.join(first.split())} |")
    return "\n".join(lines) + "\n"


def fabric_states_table() -> str:
    """Return the states of a mirrored database as a Markdown table."""
    lines = ["| state | meaning | what to do |", "|---|---|---|"]
    for state, explanation in STATES.items():
        meaning = explanation.meaning[:1].upper() + explanation.meaning[1:]
        lines.append(f"| *{state.replace('_', ' ').capitalize()}* | {meaning} | {explanation.remedy or ''} |")
    return "\n".join(lines) + "\n"


def with_generated(text: str, generated: str) -> str:
    """Return the page with its generated part replaced."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


def render_documents() -> dict[Path, str]:
    """Return the text of each page with a generated part, as the code says that it must be."""
    parts = {
        DOCS / "reference/settings.md": settings_tables(),
        DOCS / "reference/errors.md": errors_tables(),
        DOCS / "reference" / "kafka-bridge.md": bridge_tables(BridgeSettings),
        DOCS / "reference" / "object-bridge.md": bridge_tables(ObjectsSettings),
        DOCS / "reference" / "options.md": options_tables(),
        DOCS / "reference" / "verify-findings.md": findings_tables(),
        DOCS / "operate/emulator.md": emulator_tables(),
        DOCS / "operate/certify.md": certify_tables(),
        DOCS / "reference/limits.md": limits_tables(),
        DOCS / "reference/types.md": types_tables(),
        **{DOCS / f"reference/{name}.md": parameters_table(name) for name in FORMATS},
        DOCS / "contribute/seeds.md": seeds_tables(),
        DOCS / "operate/fabric-database.md": fabric_states_table(),
        DOCS / "operate/table-operations.md": operations_table(),
        DOCS / "troubleshoot/alerts.md": alerts_sections(),
        DOCS / "troubleshoot/rejected.md": kept_messages_table(),
    }
    return {path: with_generated(path.read_text(encoding="utf-8"), part) for path, part in parts.items()}


if __name__ == "__main__":
    for path, text in render_documents().items():
        path.write_text(text, encoding="utf-8")
