"""Differential fuzzing of the two paths, `python -m tests.fuzz.differential --format arcion --inputs 1000000`.

Each input is a random or damaged body. Whatever the columnar path takes, the exact path takes too, with the same rows,
counts and source position; whatever the exact path rejects, the columnar path declines. Bodies are read together, as
the reader thread reads requests that wait, and some of them alone.

A difference is shrunk, stored in `.fuzz/found` and printed, and the exit code is 1. The same format, seed and number of
inputs give the same bodies.
"""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields, replace
from itertools import accumulate, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from app.domain.model.change import Change, Operation, counts_of, progress_of
from app.domain.model.table import TableId
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_image import ImageRows
from app.domain.rows.row_rules import RowRules
from app.formats.columnar import NotColumnar
from app.ingest.columnar import Asked, ColumnarBody, Declined, OpenedBody, ReadOutcome, read_together
from app.ingest.table_cache import TableCache
from mirrorgate.errors import RejectedInput
from tests.fuzz.bodies import random_bodies
from tests.fuzz.columnar_readers import READERS, Reader

FOUND: Final = Path(__file__).resolve().parents[2] / ".fuzz" / "found"
TOGETHER: Final = 256
"""Bodies read together."""
THOROUGH: Final = 16
"""Of so many groups, one is compared thoroughly."""
_OPEN, _CLOSE = b"{}"
PART: Final = 50_000
"""Inputs of one task of a process."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Inputs by what became of them."""

    inputs: int = 0
    distinct: int = 0
    """Inputs that differ from those read with them; the others count distinct ones. The rest was not decoded."""
    landed: int = 0
    """Read by both paths, with the same rows."""
    declined_valid: int = 0
    """Decoded by the columnar path and declined at their rows, although the exact path accepts them."""
    rejected: int = 0
    """Decoded by the columnar path, rejected by the exact path, and so declined at their rows."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts)))


class Difference(Exception):
    """The two paths disagree about a body."""

    def __init__(self, body: bytes, text: str) -> None:
        super().__init__(text)
        self.body, self.text = body, text


def compare(bodies: Sequence[bytes], reader: Reader, *, thorough: bool = False) -> Counts:
    """Read these bodies on both paths. Raises Difference for the first body that they disagree about.

    A `thorough` comparison types each body alone on the exact path, and reads all bodies together on the columnar path,
    also those that it declines alone.
    """
    requests = {body: reader.request(body) for body in bodies}
    distinct = [body for body, request in requests.items() if _is_decoded(request, reader.cache)]
    expected = expected_rows(distinct, reader, alone=thorough)
    rejected = [body for body in distinct if body not in expected]
    for body in rejected:
        [outcome] = _outcomes(reader, [requests[body]])
        if isinstance(outcome, list):
            raise Difference(body, "the columnar path takes what the exact path rejects")
    together = [*requests] if thorough else [*expected]
    declined_valid = 0
    for body, outcome in zip(together, _outcomes(reader, [requests[body] for body in together]), strict=True):
        if not isinstance(outcome, list):
            declined_valid += body in expected
            continue
        rows = expected.get(body) or expected_rows([body], reader, alone=True).get(body)
        if rows is None:
            raise Difference(body, "read with others, the columnar path takes what the exact path rejects")
        if text := _difference({batch.table.table_id: batch.rows for batch in outcome}, rows):
            raise Difference(body, text)
    return Counts(
        inputs=len(bodies),
        distinct=len(requests),
        landed=len(expected) - declined_valid,
        declined_valid=declined_valid,
        rejected=len(rejected),
    )


def expected_rows(
    bodies: Sequence[bytes], reader: Reader, *, alone: bool
) -> Mapping[bytes, Mapping[TableId, LandingRows]]:
    """Return the rows that the exact path lands, by table, of each body that it accepts."""
    found: dict[bytes, dict[TableId, LandingRows | None]] = {}
    groups: dict[object, list[tuple[bytes, TableId, Sequence[Change]]]] = {}
    for body in bodies:
        try:
            changes = reader.changes(body)
        except RejectedInput:
            continue
        found[body] = {}
        for table_id, of_table in changes.items():
            has_snapshots = any(change.operation is Operation.SNAPSHOT for change in of_table)
            is_alone = alone or _changes_key(of_table, reader.rules[table_id].schema.key_columns)
            key = object() if is_alone else (table_id, has_snapshots)
            groups.setdefault(key, []).append((body, table_id, of_table))
    for group in groups.values():
        requests = [changes for _, _, changes in group]
        for (body, table_id, _), rows in zip(group, _exact_rows(requests, reader.rules[group[0][1]]), strict=True):
            found[body][table_id] = rows
    return {
        body: {table_id: rows for table_id, rows in tables.items() if rows is not None}
        for body, tables in found.items()
        if None not in tables.values()
    }


def _changes_key(changes: Sequence[Change], key_columns: Sequence[str]) -> bool:
    """Return True if an update may change its key, so that it becomes two rows and others may land in another order."""
    return any(
        change.before.get(name) != change.after.get(name)
        for change in changes
        if change.before and change.after
        for name in key_columns
    )


def _exact_rows(requests: Sequence[Sequence[Change]], rules: RowRules) -> list[LandingRows | None]:
    """Return what `landing_rows` gives for each request, None for a rejected one.

    Typing a request takes ten times as long as its share of many. So they are typed as one, and the rows are cut.
    """
    if len(requests) == 1:
        return [_exact(requests[0], rules)]
    all_rows = _exact([change for changes in requests for change in changes], rules)
    if all_rows is None or all_rows.rows != all_rows.changes:
        half = len(requests) // 2
        return [*_exact_rows(requests[:half], rules), *_exact_rows(requests[half:], rules)]
    ends = [*accumulate(map(len, requests))]
    return [_cut(all_rows, changes, end) for changes, end in zip(requests, ends, strict=True)]


def _exact(changes: Sequence[Change], rules: RowRules) -> LandingRows | None:
    try:
        return _with_counts(landing_rows(changes, rules), changes)
    except RejectedInput:
        return None


def _with_counts(rows: LandingRows, changes: Sequence[Change]) -> LandingRows:
    """Add the counts of operations, as the exact path does."""
    return replace(rows, progress=rows.progress._replace(counts=counts_of(changes)))


def _cut(rows: LandingRows, changes: Sequence[Change], end: int) -> LandingRows:
    """Return the rows of one of several requests; each change has one row."""
    start = end - len(changes)
    return replace(
        rows,
        batch=rows.batch.slice(start, len(changes)),
        changes=len(changes),
        ends_transaction=changes[-1].ends_transaction,
        starts_cdc=any(change.operation is not Operation.SNAPSHOT for change in changes),
        source_position=next((change.source_position for change in reversed(changes) if change.source_position), None),
        images=rows.images and _cut_images(rows.images, start, end),
        progress=progress_of(changes)._replace(counts=counts_of(changes)),
    )


def _cut_images(images: ImageRows, start: int, end: int) -> ImageRows:
    incomplete = {row - start: entry for row, entry in images.incomplete.items() if start <= row < end}
    inserts = [row - start for row in images.inserts if start <= row < end]
    return ImageRows(images.keys[start:end], images.images[start:end], incomplete, inserts)


def _is_decoded(request: Asked[ColumnarBody], cache: TableCache) -> bool:
    """Return True if the columnar path finds the tables of a body and can read its images, alone."""
    try:
        [opened] = type(request.body).columnar([request], cache)
        if not isinstance(opened, OpenedBody):
            return False
        for part in opened.parts:
            part.reader.read([part.content])
    except (Declined, NotColumnar, ValueError, RecursionError):
        return False
    except Exception as error:
        raise Difference(request.body.body, f"the columnar path fails: {error!r}") from error
    return True


def _outcomes(reader: Reader, requests: Sequence[Asked[ColumnarBody]]) -> list[ReadOutcome]:
    if not requests:
        return []
    try:
        return read_together(requests, reader.cache)
    except Exception as error:
        if len(requests) > 1:
            for request in requests:
                _outcomes(reader, [request])
        body = b"\n".join(request.body.body for request in requests)
        raise Difference(body, f"the columnar path fails: {error!r}") from error


def _difference(found: Mapping[TableId, LandingRows], expected: Mapping[TableId, LandingRows]) -> str:
    """Say in which field the rows differ; empty if they are equal."""
    if found.keys() != expected.keys():
        return f"tables {[*found]} instead of {[*expected]}"
    for table_id, rows in expected.items():
        if found[table_id] == rows:
            continue
        for field in fields(LandingRows):
            one, other = getattr(found[table_id], field.name), getattr(rows, field.name)
            if field.name == "batch":
                one, other = (repr((batch.schema, batch.to_pylist())) for batch in (one, other))
            elif field.name == "images":
                one, other = map(_comparable, (one, other))
            if field.compare and one != other:
                return f"{field.name} of table {table_id}: {one!r} instead of {other!r}"
    return ""


def _comparable(images: ImageRows | None) -> object:
    """Return the images without places in messages, which are for errors alone: then the exact path reads again."""
    if images is None:
        return None
    incomplete = [(row, [*one.values], one.missing, {*one.unknown}) for row, one in images.incomplete.items()]
    key_changes = [(change.row, change.before, change.after) for change in images.key_changes]
    return [*images.keys], [*images.images], incomplete, [*images.inserts], key_changes


def run(source_format: str, seed: str, inputs: int) -> Counts:
    """Compare this many bodies. Raises Difference, with a body that alone shows it if there is one."""
    reader = READERS[source_format]()
    bodies = random_bodies(seed, reader.tables, reader.message)
    counts = Counts()
    for number, first in enumerate(range(0, inputs, TOGETHER)):
        group = [*islice(bodies, min(TOGETHER, inputs - first))]
        try:
            counts += compare(group, reader, thorough=number % THOROUGH == 0)
        except Difference as difference:
            raise shrunk(difference, reader) from None
    return counts


def shrunk(difference: Difference, reader: Reader) -> Difference:
    """Return a difference of a smaller body, by leaving out objects and then other parts as long as one remains."""
    while found := next(filter(None, (_found(smaller, reader) for smaller in _smaller(difference.body))), None):
        difference = found
    return difference


def _smaller(body: bytes) -> Iterator[bytes]:
    """Yield the body without one of its objects, largest first, and then without other parts of it."""
    opened, spans = [], []
    for at, byte in enumerate(body):
        if byte == _OPEN:
            opened.append(at)
        elif byte == _CLOSE and opened:
            spans.append((opened.pop(), at + 1))
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        yield body[:start] + body[end:].removeprefix(b",")
        yield body[:start].removesuffix(b",") + body[end:]
    size = len(body) // 2
    while size:
        yield from (body[:start] + body[start + size :] for start in range(0, len(body), size))
        size //= 2


def _found(body: bytes, reader: Reader) -> Difference | None:
    try:
        compare([body], reader, thorough=True)
    except Difference as difference:
        return difference
    return None


def _parts(seed: int, inputs: int) -> Iterator[tuple[str, int]]:
    for number, first in enumerate(range(0, inputs, PART)):
        yield f"{seed}-{number}", min(PART, inputs - first)


def fuzz(source_format: str, seed: int, inputs: int, jobs: int, show: Callable[[Counts], None]) -> Counts:
    """Compare bodies in several processes. Raises what the first process to find something raises."""
    counts = Counts()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(_run_part, source_format, *part) for part in _parts(seed, inputs)]
        for task in as_completed(tasks):
            found = task.result()
            if isinstance(found, tuple):
                pool.shutdown(wait=False, cancel_futures=True)
                raise Difference(*found)
            counts += found
            show(counts)
    return counts


def _run_part(source_format: str, seed: str, inputs: int) -> Counts | tuple[bytes, str]:
    try:
        return run(source_format, seed, inputs)
    except Difference as difference:
        return difference.body, difference.text


def main() -> int:
    """Fuzz and print what became of the inputs; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.differential", description=__doc__)
    parser.add_argument("--format", choices=[*READERS], required=True)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="bodies to compare (default: 1,000,000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other bodies (default: 0)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: cores)")
    arguments = parser.parse_args()
    started = time.monotonic()

    def show(counts: Counts) -> None:
        rate = counts.inputs / (time.monotonic() - started)
        sys.stdout.write(f"\r{_text(counts)}, {rate:,.0f} inputs/s ")
        sys.stdout.flush()

    try:
        counts = fuzz(arguments.format, arguments.seed, arguments.inputs, arguments.jobs, show)
    except Difference as difference:
        FOUND.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha1(difference.body, usedforsecurity=False).hexdigest()
        file = FOUND / f"differential-{arguments.format}-{digest}"
        file.write_bytes(difference.body)
        sys.stdout.write(f"\nDIFFERENCE: {difference.text}\n{difference.body!r}\n{file}\n")
        return 1
    sys.stdout.write(f"\n{arguments.format}, seed {arguments.seed}: {_text(counts)}; no difference\n")
    return 0


def _text(counts: Counts) -> str:
    return ", ".join(f"{field.name.replace('_', ' ')} {getattr(counts, field.name):,}" for field in fields(Counts))


if __name__ == "__main__":
    sys.exit(main())
