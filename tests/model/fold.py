"""The expectation: a dict of source rows per table, and the rows that a mirror of the landing files must have.

A `Fold` follows the source. For each batch it says which keys must have which rows afterwards. `Landed` applies the
files by their row markers, as docs/explanation/delta-mirror.md describes, and compares each batch. Nothing here uses
the gateway's code.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from deltalake import DeltaTable

from app.mirror.target import arrow_dataset
from demo.landing_reader import ROW_MARKER, landing_files, table_folder
from tests.model.tables import Spec
from tests.model.values import landed_value
from tests.support.forms.form import ANY, Change, Facts, Key
from tests.support.forms.values import Row

DELETE: Final = 2


class Difference(Exception):
    """What landed, or what the gateway answered, is not what the documentation says."""


@dataclass
class Batch:
    """What one request must have done: per landed key the rows afterwards, in a history the rows that were added."""

    step: str
    rows: int
    wanted: dict[Key, list[Row]]
    dry_run: list[Row] | None = None


@dataclass
class Fold:
    """The rows of the source, and those that are flagged as deleted; `partly` has columns of unknown value by key."""

    spec: Spec
    rows: dict[Key, Row] = field(default_factory=dict)
    flagged: dict[Key, Row] = field(default_factory=dict)
    partly: dict[Key, frozenset[str]] = field(default_factory=dict)
    keyless: int = 0
    """Rows of a table without keys, which are in no dict."""

    def apply(self, statement: Sequence[Change]) -> None:
        """Change the rows of the source by changes that happen at once."""
        if not self.spec.keys:
            self.keyless += len(statement)
            return
        unknown = frozenset[str]()
        for change in statement:
            if change.old is not None:
                key = self.spec.key(change.old)
                self.rows.pop(key, None)
                unknown = self.partly.pop(key, frozenset())
                if (
                    self.spec.flags_deletes
                    and change.known
                    and (change.new is None or self.spec.key(change.new) != key)
                ):
                    self.flagged[key] = change.old
        for change in statement:
            if change.new is not None:
                key = self.spec.key(change.new)
                self.flagged.pop(key, None)
                self.partly.pop(key, None)
                self.rows[key] = change.new
                given = change.new.keys() if change.given is None else change.given
                if missing := (change.new.keys() if change.old is None else unknown) - given:
                    self.partly[key] = frozenset(missing)

    def wanted(self, changes: Sequence[Change]) -> dict[Key, list[Row]]:
        """Return the rows that a mirror has after these changes, by each key that they concern."""
        found: dict[Key, list[Row]] = {}
        for _, together in groupby(changes, key=lambda change: change.statement or id(change)):
            statement = list(together)
            for change in statement:
                self._remove(found, change)
            for change in statement:
                if change.new is not None:
                    self._add(found, change)
        return found

    def rebuilt(self) -> dict[Key, list[Row]]:
        """Return the rows of a new generation from row images."""
        facts = Facts(ANY, ANY, ANY)
        present = [Change("load", None, row, facts=facts) for row in self.rows.values()]
        deleted = [Change("D", row, None, facts=facts) for row in self.flagged.values()]
        wanted = self.wanted([*deleted, *present])
        return {key: rows for key, rows in wanted.items() if rows}

    def _remove(self, found: dict[Key, list[Row]], change: Change) -> None:
        old, spec = change.old, self.spec
        if old is None or (change.new is not None and spec.key(old) == spec.key(change.new)):
            return
        told = change.facts or Facts(ANY, ANY, ANY)
        facts = told if told.operation is ANY else Facts("delete", told.timestamp, told.position)
        key = spec.landed_key(spec.key(old))
        if spec.is_history:
            found.setdefault(key, []).append(spec.landed(old, facts, is_deleted=True, only_key=True))
        elif spec.flags_deletes and change.known:
            found[key] = [spec.landed(old, facts, is_deleted=True)]
        else:
            found[key] = []

    def _add(self, found: dict[Key, list[Row]], change: Change) -> None:
        spec, new = self.spec, change.new
        assert new is not None
        facts = change.facts or Facts(ANY, ANY, ANY)
        if change.old is not None and spec.key(change.old) != spec.key(new):
            facts = Facts("insert", facts.timestamp, facts.position)
        key = spec.landed_key(spec.key(new))
        if spec.appends:
            found.setdefault(key, []).append(spec.landed(new, facts))
        else:
            found[key] = [spec.landed(new, facts)] if spec.matches(new) else []


class Landed:
    """The landing files of one generation, compared with its batches as far as they are asked for."""

    def __init__(self, zone: Path, spec: Spec) -> None:
        self._folder, self._spec = table_folder(zone, spec.name), spec
        renamed = spec.options.get("rename", {})
        self._keys = [renamed.get(name, name) for name in spec.keys]
        self.mirror: dict[Key, list[Row]] = {}
        self.rows = self.files = 0

    def compare(self, batches: Sequence[Batch]) -> None:
        """Compare all files with all batches. Raises Difference."""
        landed = self._landed_rows()
        for at, batch in enumerate(batches, 1):
            place = f"batch {at} ({batch.step})"
            slice_ = [*islice(landed, batch.rows)]
            if len(slice_) < batch.rows:
                raise Difference(f"{place}: the receipt says {batch.rows} rows, and {len(slice_)} landed")
            self._compare_dry_run(place, batch, slice_)
            self._compare(place, batch, self._applied(slice_))
        if (left := sum(1 for _ in landed)) > 0:
            raise Difference(f"{left} rows landed that belong to no receipt")

    def compare_delta(self, mirrored: DeltaTable) -> None:
        """Compare a Delta table of the last generation with what the files have made. Raises Difference."""
        found: dict[Key, list[Row]] = {}
        for values in arrow_dataset(mirrored).to_table().to_pylist():
            row = {name: landed_value(value) for name, value in values.items()}
            found.setdefault(tuple([row[name] for name in self._keys]), []).append(row)
        for key in found.keys() | self.mirror.keys():
            rows = [
                {name: row.get(name) for name in found[key][0]} if key in found else row
                for row in self.mirror.get(key, [])
            ]
            if rows != found.get(key, []):
                raise Difference(f"key {key}: the files make {rows}, the Delta table has {found.get(key, [])}")

    def _landed_rows(self) -> Iterator[Row]:
        types, order = self._spec.landed_types, self._spec.options.get("audit_columns", {}).get("row_order")
        last = -1
        for file in landing_files(self._folder):
            table = pq.read_table(file)
            self.files += 1
            for name in table.column_names:
                if name != ROW_MARKER and (found := table.schema.field(name).type) != types.get(name):
                    raise Difference(f"{file.name}, column {name}: its type is {found}, expected {types.get(name)}")
            names = table.column_names
            columns = [[*map(landed_value, table.column(name).to_pylist())] for name in names]
            for values in zip(*columns, strict=True):
                row = dict(zip(names, values, strict=True))
                if order is not None and order in row:
                    if row[order] <= last:
                        raise Difference(f"{file.name}: {order} {row[order]} follows {last}")
                    last = row[order]
                self.rows += 1
                yield row

    def _applied(self, rows: Iterable[Row]) -> dict[Key, list[Row]]:
        """Apply rows to the mirror; return the rows of each key that they concern, without markers."""
        if self._spec.is_history:
            self.mirror = {}
        touched = {}
        for landed in rows:
            key = tuple([landed[name] for name in self._keys])
            row = {name: value for name, value in landed.items() if name != ROW_MARKER}
            marker = 0 if self._spec.is_history else landed.get(ROW_MARKER, 0)
            present = self.mirror.setdefault(key, [])
            if marker == 0:
                present.append(row)
            else:
                present[:] = [] if marker == DELETE else [row]
            touched[key] = present
        return touched

    def _compare(self, place: str, batch: Batch, touched: dict[Key, list[Row]]) -> None:
        for key in batch.wanted.keys() | touched.keys():
            wanted, found = batch.wanted.get(key, []), touched.get(key, [])
            if not self._spec.keys:
                found = found[-batch.rows :]
            if len(wanted) != len(found):
                raise Difference(f"{place}, key {key}: {len(wanted)} rows expected, {len(found)} in the mirror")
            for one, other in zip(wanted, found, strict=True):
                for name, value in one.items():
                    if value != other.get(name):
                        raise Difference(
                            f"{place}, key {key}, column {name}: expected {value!r}, landed {other.get(name)!r}"
                        )
        if not self._spec.keys:
            self.mirror[()] = []

    def _compare_dry_run(self, place: str, batch: Batch, landed: list[Row]) -> None:
        if batch.dry_run is None:
            return
        if len(batch.dry_run) != len(landed):
            raise Difference(f"{place}: the dry run has {len(batch.dry_run)} rows, and {len(landed)} landed")
        audits = self._spec.options.get("audit_columns", {})
        passing = {audits.get("accepted_at"), audits.get("row_order")}
        for at, (shown, row) in enumerate(zip(batch.dry_run, landed, strict=True)):
            for name, value in shown.items():
                if name not in passing and not same_as_shown(value, row.get(name, 0 if name == ROW_MARKER else None)):
                    raise Difference(
                        f"{place}, row {at}, column {name}: the dry run has {value!r}, landed {row.get(name)!r}"
                    )


def same_as_shown(shown: Any, landed: Any) -> bool:
    """Compare a value of a dry run, as JSON has it, with a landed one."""
    if landed == "NaN" and isinstance(shown, str):
        return bool(shown.lower() == "nan")
    if shown is None or landed is None or isinstance(landed, bool | int):
        return bool(shown == landed)
    return _READERS.get(type(landed).__name__, str)(shown) == landed


def _float(shown: Any) -> Any:
    return landed_value(float(shown))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "Decimal": Decimal,
    "bytes": b64decode,
    "float": _float,
}
