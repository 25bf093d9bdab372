"""Compares every version of a Delta table with the model: no file repeated, none skipped, every row as it must be."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from tests.mirror.model.delta_content import delta_rows
from tests.mirror.model.landed import Generation
from tests.mirror.model.table_model import Record, TableModel

FILES, GENERATION, ROWS = "mirrorgate.files", "mirrorgate.generation", "mirrorgate.rows"


@dataclass(frozen=True)
class Checked:
    """What a check went through."""

    versions: int
    last_file: int
    rows: int


def check_every_version(
    uri: str, history: Generation, generation: int = 1, options: dict[str, str] | None = None
) -> Checked:
    """Compare each version of the table at `uri` with the files of its generation. Raises AssertionError."""
    model = TableModel()
    commits = sorted(DeltaTable(uri, storage_options=options).history(), key=lambda commit: int(commit["version"]))
    assert [int(commit["version"]) for commit in commits] == list(range(len(commits)))
    last = 0
    for commit in commits:
        at = f"{uri}, version {commit['version']}"
        if FILES in commit:
            assert commit[GENERATION] == str(generation), at
            first, last_new = map(int, str(commit[FILES]).split("-"))
            assert first == last + 1, f"{at}: files {commit[FILES]} after file {last}"
            assert last_new >= first, at
            before = model.read.copy()
            for file in history.files[first - 1 : last_new]:
                model.apply(file, history.metadata)
            last = last_new
            assert _rows_by_marker(commit) == model.read - before, at
        _compare(DeltaTable(uri, int(commit["version"]), storage_options=options), model, at)
    return Checked(len(commits), last, model.row_count)


def _rows_by_marker(commit: Mapping[str, object]) -> Counter[int]:
    written = json.loads(str(commit[ROWS]))
    assert set(written) == {"0", "1", "2", "4"}, written
    return +Counter({int(marker): int(rows) for marker, rows in written.items()})


def _compare(table: DeltaTable, model: TableModel, at: str) -> None:
    """Compare columns, types and rows. The order of columns is not promised: MERGE decides it for new ones."""
    fields = {field.name.lower(): field for field in table.schema().fields}
    types = {name: _type_name(field.type) for name, field in fields.items()}
    assert types == {name: column.of_kind.delta for name, column in model.columns.items()}, at
    assert {field.name for field in fields.values()} == {column.name for column in model.columns.values()}, at
    assert all(field.nullable for field in fields.values()), at
    assert_equal_rows(delta_rows(table, list(model.columns)), model.rows(), at)


def assert_equal_rows(found: Counter[Record], expected: Counter[Record], at: str) -> None:
    """Fail with the first differences."""
    if found != expected:
        missing, ghosts = expected - found, found - expected
        raise AssertionError(
            f"{at}: {missing.total()} rows missing, {ghosts.total()} too many of {expected.total()}\n"
            f"missing: {list(missing)[:3]}\ntoo many: {list(ghosts)[:3]}"
        )


def _type_name(delta_type: object) -> str:
    return str(getattr(delta_type, "type", delta_type))
