"""Turns the declaration of a table into the domain's schema and options."""

import base64
from collections.abc import Iterator, Sequence

from app.api.schemas.tables import ColumnModel, RegisterTable
from app.domain.access.mask_secret import MaskSecret
from app.domain.arrow.schema_flatbuffer import columns_of, schema_from_bytes
from app.domain.model.names import check_column_name
from app.domain.model.projection.rejections import bad_option
from app.domain.model.projection.transforms import MaskMethod
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.errors import Code, Problem, RejectedInput


def given_options(wanted: RegisterTable) -> set[str] | None:
    """Return the names of the options in the request; None if it has none."""
    return None if wanted.options is None else set(wanted.options.model_fields_set)


def read_options(wanted: RegisterTable, mask_secret: MaskSecret | None) -> TableOptions | None:
    """Return the options of a request; None if it has none.

    Raises RejectedInput `bad_option`, also for a hash without the secret that it needs.
    """
    if wanted.options is None:
        return None
    options = TableOptions.parse(wanted.options.model_dump())
    for name, mask in options.masks.items() if mask_secret is None else ():
        if mask.method is MaskMethod.HASH:
            detail = "the gateway has no secret for hashes; set MIRRORGATE_MASK_SECRET for all API processes first"
            raise bad_option(detail, "masks", name, "method")
    return options


def declared_schema(wanted: RegisterTable) -> TableSchema | None:
    """Return the schema that is declared as a list of columns or as an Arrow schema; None if neither is given.

    Raises RejectedInput `bad_schema`, `bad_type`, `bad_name` or `reserved_name`.
    """
    columns = _declared_columns(wanted)
    return None if columns is None else TableSchema.declare(columns, tuple(wanted.key_columns))


def _declared_columns(wanted: RegisterTable) -> tuple[Column, ...] | None:
    if wanted.columns is not None and wanted.arrow_schema is not None:
        raise RejectedInput(Code.BAD_SCHEMA, "`columns` and `arrow_schema` cannot be combined")
    if wanted.columns is not None:
        return tuple(declared_columns(wanted.columns, wanted.key_columns))
    if wanted.arrow_schema is None:
        if wanted.key_columns:
            raise RejectedInput(Code.BAD_SCHEMA, "`key_columns` requires `columns` or `arrow_schema`")
        return None
    try:
        content = base64.b64decode(wanted.arrow_schema, validate=True)
    except ValueError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "`arrow_schema` is not base64") from error
    return columns_of(schema_from_bytes(content))


def declared_columns(columns: Sequence[ColumnModel], key_columns: Sequence[str]) -> list[Column]:
    """Return the columns of a declaration. Raises RejectedInput `bad_type`, `bad_schema`, `bad_name`, `reserved_name`.

    Each problem has a JSON Pointer. The domain checks names and keys again, for columns that no body declares.
    """
    problems = [*_wrong_types(columns), *_wrong_names(columns), *_wrong_keys(columns, key_columns)]
    if problems:
        raise RejectedInput.of(tuple(problems))
    return [Column(column.name, ColumnType.parse(column.type), column.nullable) for column in columns]


def _wrong_types(columns: Sequence[ColumnModel]) -> Iterator[Problem]:
    for index, column in enumerate(columns):
        try:
            ColumnType.parse(column.type)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, pointer=f"/columns/{index}/type", column=column.name)


def _wrong_names(columns: Sequence[ColumnModel]) -> Iterator[Problem]:
    earlier: set[str] = set()
    for index, column in enumerate(columns):
        pointer, folded = f"/columns/{index}/name", column.name.casefold()
        try:
            check_column_name(column.name)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, pointer=pointer, column=column.name)
        if folded in earlier:
            detail = "another column has the same name (letter case does not count)"
            yield Problem(Code.BAD_SCHEMA, detail, pointer=pointer, column=column.name)
        earlier.add(folded)


def _wrong_keys(columns: Sequence[ColumnModel], key_columns: Sequence[str]) -> Iterator[Problem]:
    names = {column.name for column in columns}
    for index, key in enumerate(key_columns):
        pointer = f"/key_columns/{index}"
        if key not in names:
            yield Problem(Code.BAD_SCHEMA, f"key column {key!r} is not among the columns", pointer=pointer)
        elif key in key_columns[:index]:
            yield Problem(Code.BAD_SCHEMA, f"key column {key!r} is named twice", pointer=pointer)
