"""Lay out output for people: readable at 80 columns, and no name or number is ever cropped."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import TableSchema
from mirrorgate.cli.console import OUTPUT, say
from mirrorgate.cli.grid import Grid, moment
from mirrorgate.text import amount


def caller(key_id: str, name: str | None) -> str:
    """Return who called: the name of a key beside its id."""
    return key_id if name is None else f"{name} ({key_id})"


def status_grid(tables: Sequence[dict[str, Any]], width: int, *, wide: bool = False) -> Grid:
    """Build the reconciliation: one short line per table. `wide` adds columns that are rarely needed.

    Without it, columns that say least are left out in a terminal that is too narrow for all of them.
    """
    letters = wide or any(_waiting(table) for table in tables)
    more = ("staged", "files") if wide else ()
    mirror = ("mirror",) if any(table.get("mirror") for table in tables) else ()
    numbers = ("accepted", *more[:1], "published", "processed", *more[1:], "lag", "oldest")
    lag = ("source lag",) if wide or any(_source_lag(table) is not None for table in tables) else ()
    titles = ["table", "gen", "state", *numbers, *lag, *mirror, *(("dead letters",) if letters else ())]
    says_nothing = (
        *(["processed"] if all((table["processed"] or {}).get("rows") is None for table in tables) else []),
        *(["gen"] if all(table["generation"] == 1 for table in tables) else []),
    )
    spare = [] if wide else [*says_nothing, *lag, "oldest", "processed", "gen"]
    found = _status_table(titles, tables, wide=wide)
    while spare and found.least_width > width:
        left_out = spare.pop(0)
        titles = [title for title in titles if title != left_out]
        found = _status_table(titles, tables, wide=wide)
    return found


def _status_table(titles: Sequence[str], tables: Sequence[dict[str, Any]], *, wide: bool) -> Grid:
    found = Grid(titles, right={*titles} - {"table", "gen", "state", "mirror"})
    for table in tables:
        processed = table["processed"] or {}
        cells = {
            "table": table["table"],
            "gen": str(table["generation"]),
            "state": "failing" if table.get("failing") else table["state"],
            **{stage: f"{table[stage]['rows']:,}" for stage in ("accepted", "staged", "published")},
            "processed": "-" if processed.get("rows") is None else f"{processed['rows']:,}",
            "files": f"{table['published']['files']:,}",
            "lag": f"{table['lag']['rows']:,}",
            "oldest": f"{table['lag']['oldest_seconds']:.1f} s",
            "source lag": "-" if (lag := _source_lag(table)) is None else f"{lag:,.1f} s",
            "mirror": _mirror_cell(table.get("mirror"), wide=wide),
            "dead letters": f"{_waiting(table):,}",
        }
        found.add(*(cells[title] for title in titles), style=_style(table["troubles"]))
    return found


def _source_lag(table: dict[str, Any]) -> float | None:
    """Return the lag of the source; None for a table without a recent change, or of a gateway that tells none."""
    lag: float | None = (table.get("source") or {}).get("lag_seconds")
    return lag


def _lines(table: dict[str, Any]) -> Iterator[str]:
    """Yield what the gateway says is wrong with a table, each with its remedy; nothing for a healthy one."""
    if table["state"] in ("dropping", "rebuilding") and table["state_reason"]:
        yield f"{table['state']}: {table['state_reason']}"
    for trouble in table["troubles"]:
        label = trouble["kind"].removeprefix("table_").replace("_", " ")
        since = f" (since {moment(trouble['since'])})" if trouble["since"] else ""
        yield f"{label}: {trouble['detail']}{since}"
        yield f"remedy: {trouble['remedy']}"


def print_status(tables: Sequence[dict[str, Any]], *, wide: bool = False) -> None:
    """Print the reconciliation, and the problems of each table below it."""
    if not tables:
        OUTPUT.print("no tables yet; register one: mirrorgate tables register --help", highlight=False)
        return
    status_grid(tables, OUTPUT.width, wide=wide).print()
    for table in tables:
        if lines := [*_lines(table)]:
            style = _style(table["troubles"])
            OUTPUT.print(f"\n{table['table']}: {lines[0]}", style=style, markup=False, highlight=False)
            for line in lines[1:]:
                OUTPUT.print(f"  {line}", markup=False, highlight=False)


def print_parts(parts: Mapping[str, str]) -> None:
    """Print what is wrong with each part of the gateway that does not work, such as a drain that publishes nothing."""
    for part, state in parts.items():
        if state != "ok" and part not in ("tables", "fabric", "mirror"):  # the status has other lines for these
            OUTPUT.print(f"\n{part}: {state}", style="red", markup=False, highlight=False)


def print_fabric(fabric: dict[str, Any]) -> None:
    """Print the state of the mirrored database, and what to do if it needs an operator."""
    read = f", read {moment(fabric['read_at'])}" if fabric["read_at"] else ""
    since = f" since {moment(fabric['since'])}" if fabric["since"] else ""
    style = "red" if fabric["problem"] else ""
    state = fabric["state"] or "no answer yet"
    OUTPUT.print(f"\nFabric: {state}{since}{read}", style=style, markup=False, highlight=False)
    if fabric["problem"]:
        OUTPUT.print(f"  {fabric['problem']}", markup=False, highlight=False)
        OUTPUT.print(f"  remedy: {fabric['remedy']}", markup=False, highlight=False)


def print_table(table: dict[str, Any], schema: dict[str, Any]) -> None:
    """Print the columns of a table, what the gateway knows about it, and the options that are not the default."""
    head = f"{table['table']}: {table['state']}, generation {table['generation']}, schema {table['schema_version']}"
    say(head)
    keys, left = schema["key_columns"], {*schema["left_columns"]}
    grid = Grid(("column", "type", "nullable", "key", "note"), right=("key",))
    for column in schema["columns"]:
        key = str(keys.index(column["name"]) + 1) if column["name"] in keys else ""
        note = "not filled by the source" if column["name"] in left else ""
        grid.add(column["name"], column["type"], "yes" if column["nullable"] else "no", key, note)
    say("")
    grid.print()
    say("")
    shown = ("table", "state", "generation", "schema_version", "key_columns", "options")
    for line in _facts({name: value for name, value in table.items() if name not in shown}):
        say(line)
    chosen = _chosen_options(table["options"], schema)
    for name, value in chosen.items():
        say(f"options.{name}: {_spelled(value)}")
    others = len(table["options"]) - len(chosen)
    say(f"{amount(others, 'option')} at the default (--json shows all)")


def _facts(facts: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the nested facts that are known, one per line under its full name."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _facts(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}: {_spelled(value)}"


def _spelled(value: Any) -> str:
    """Return a value as JSON has it, but strings without quotes and numbers with separators."""
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)


def _chosen_options(options: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the options whose value is not the default of a new table with this schema."""
    new = DEFAULT_OPTIONS.of_new_table(TableSchema.from_json({**schema, "bare": False}), ())
    present = TableOptions.parse(options).to_json()
    return {name: present[name] for name, value in new.to_json().items() if present[name] != value}


def _mirror_cell(mirror: dict[str, Any] | None, *, wide: bool) -> str:
    """Return `ok`, `-3` for three landing files behind, or the state; wide with the Delta version and the file."""
    if mirror is None:
        return "-"
    short: str = {"in_step": "ok", "behind": f"-{mirror['pending_files']:,}"}.get(mirror["state"], mirror["state"])
    if not wide or mirror["version"] is None:
        return short
    return f"{short} (version {mirror['version']:,}, file {mirror['file_number']:,})"


def _style(troubles: Sequence[dict[str, Any]]) -> str:
    """Return red if data has stopped, yellow if something needs attention."""
    worst = min((trouble["severity"] for trouble in troubles), default="")
    return {"critical": "red", "warning": "yellow"}.get(worst, "")


def _waiting(table: dict[str, Any]) -> int:
    waiting: int = table["dead_letters"]["waiting"]
    return waiting
