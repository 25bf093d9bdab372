"""Read Replicate data messages of one table on both paths, and compare what they give."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.domain.model.change import Change, Image
from app.domain.model.names import SourceName
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.row_layout import RowRules
from app.domain.rows.row_rules import ShapedChanges, Values
from app.formats.columnar import NotColumnar
from app.formats.replicate.columnar import Address, DataColumns, decode_data_messages
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceHistory, SourceVersion, VersionResolver
from app.formats.replicate.messages import decode_replicate
from mirrorgate.errors import RejectedInput

Told = list[tuple[SourceName | None, str | None]]
"""What each message says about its table: its address and its schema id."""


def read_exactly(
    body: bytes, version: SourceVersion | None, excluded: frozenset[str] = frozenset()
) -> tuple[list[Change], Told]:
    """Return the changes and addresses of data messages; raises RejectedInput."""
    request = decode_replicate(body)
    resolver = VersionResolver(SourceHistory((version,)) if version else None, request.metadata, excluded)
    changes = [resolver.resolve(message)[0] for message in request.changes]
    return changes, [(message.source, message.schema_id) for message in request.changes]


def read_columnar(body: bytes, version: SourceVersion | None, rules: RowRules) -> tuple[ShapedChanges, Told] | None:
    """Return the same on the columnar path, None if it does not read the body."""
    [decoded] = decode_data_messages([body])
    if decoded is None:
        return None
    columns, addresses = decoded
    told: dict[int, tuple[SourceName | None, str | None]] = {}
    for address, indexes in addresses.items():
        if address.schema_id is not None and (version is None or version.schema_id != address.schema_id):
            return None
        try:
            told |= dict.fromkeys(indexes, (_source(address), address.schema_id))
        except RejectedInput:
            return None
    read = read_or_none(ImageReader(rules.schema.names, frozenset(rules.options.exclude), version), [columns])
    return None if read is None else (read[0], [told[index] for index in range(len(columns.data))])


def read_or_none(reader: ImageReader, parts: Sequence[DataColumns]) -> list[ShapedChanges] | None:
    """Return the changes of each part, or None where the exact path has to read one."""
    try:
        return reader.read(parts)
    except NotColumnar:
        return None


def check_agreement(body: bytes, version: SourceVersion | None, rules: RowRules) -> bool:
    """Check that the columnar path gives what the exact one gives, or nothing; return whether it read the body."""
    columnar = read_columnar(body, version, rules)
    if columnar is None:
        return False
    shaped, told = columnar
    try:
        changes, told_exactly = read_exactly(body, version, frozenset(rules.options.exclude))
    except RejectedInput as error:
        raise AssertionError("the exact path rejects it") from error
    assert told == told_exactly
    assert _facts_of(shaped, rules.schema.names) == [_facts(change, rules.schema.names) for change in changes]
    assert shaped.ends_transaction == changes[-1].ends_transaction
    positions = [change.source_position for change in changes if change.source_position]
    assert shaped.source_position == (positions[-1] if positions else None)
    try:
        rows = landing_rows(changes, rules)
    except RejectedInput:
        assert landing_rows_of_shaped([shaped], rules) is None
    else:
        together = landing_rows_of_shaped([shaped], rules)
        if together is not None:
            [found] = together
            assert found.batch.equals(rows.batch)
            assert replace(found, batch=rows.batch, images=rows.images) == rows
    return True


def _source(address: Address) -> SourceName | None:
    return SourceName.of(None, address.schema, address.table) if address.table else None


def _facts_of(shaped: ShapedChanges, names: Sequence[str]) -> list[Any]:
    return [
        (
            shape.operation,
            _written(_image(shape.before, before, names)),
            _written(_image(shape.after, after, names)),
            shape.source_columns,
            shape.is_late,
        )
        for shape, before, after in zip(shaped.shapes, shaped.before, shaped.after, strict=True)
    ]


def _facts(change: Change, names: Sequence[str]) -> Any:
    known = frozenset(names)
    images = [
        image and {name: image[name] for name in image if name in known} for image in (change.before, change.after)
    ]
    return (change.operation, *map(_written, images), change.source_columns, change.is_late)


def _image(given: frozenset[str] | None, values: Values | None, names: Sequence[str]) -> Image | None:
    assert (given is None) == (values is None)
    if given is None or values is None:
        return None
    assert len(values) == len(names)
    return {name: values[at] for at, name in enumerate(names) if name in given}


def _written(image: Image | None) -> dict[str, tuple[type, str]] | None:
    """Return the values with their types, so that 1, True and 1.0 differ."""
    return image and {name: (type(value), str(value)) for name, value in image.items()}
