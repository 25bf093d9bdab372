"""Turns the declaration of a table into the domain's schema and options."""

import base64

from app.api.schemas.tables import ColumnModel, RegisterTable
from app.domain.access.mask_secret import MaskSecret
from app.domain.arrow.schema_flatbuffer import columns_of, schema_from_bytes
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
        return tuple(
            Column(column.name, _parse_type(index, column), column.nullable)
            for index, column in enumerate(wanted.columns)
        )
    if wanted.arrow_schema is None:
        if wanted.key_columns:
            raise RejectedInput(Code.BAD_SCHEMA, "`key_columns` requires `columns` or `arrow_schema`")
        return None
    try:
        content = base64.b64decode(wanted.arrow_schema, validate=True)
    except ValueError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "`arrow_schema` is not base64") from error
    return columns_of(schema_from_bytes(content))


def _parse_type(index: int, column: ColumnModel) -> ColumnType:
    try:
        return ColumnType.parse(column.type)
    except RejectedInput as error:
        problem = Problem(error.code, error.detail, pointer=f"/columns/{index}/type", column=column.name)
        raise RejectedInput.of((problem,)) from error
