"""Rights to change what the options of a table keep from its mirror, beyond the right `register`."""

from collections.abc import Iterator

from app.domain.access.rights import Principal, Right
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.errors import Code, RejectedInput


def check_row_rules(before: TableOptions | None, options: TableOptions, table: Table, principal: Principal) -> None:
    """Reject options of a table that the caller may not declare; `before` are those that it had, None for a new one.

    What hides values or rows can be added with the right `register`, and changed or removed with `admin`. A group joins
    the hashes of several tables, so a table can get another one only by a caller whose right is for all tables. Raises
    RejectedInput `forbidden`.
    """
    present = before or DEFAULT_OPTIONS
    joined = sorted(_groups(options).difference(_groups(present)))
    if joined and not principal.oversees_every_table:
        detail = f"the group {joined[0]!r} of hashes can span tables, and the key has the right for some tables only"
        raise RejectedInput(Code.FORBIDDEN, detail, remedy="Use a key with the right `register` for all tables (`*`).")
    revealed = next(_revealed(present, options), None)
    if revealed is not None and not principal.may(Right.ADMIN, table.name):
        detail = f"{revealed} of table {table.name} hides values or rows; changing that needs the right `admin`"
        raise RejectedInput(Code.FORBIDDEN, detail)


def _groups(options: TableOptions) -> set[str]:
    return {mask.group for mask in options.masks.values() if mask.group is not None}


def _revealed(present: TableOptions, options: TableOptions) -> Iterator[str]:
    """Yield what hides values or rows now and would not, or would do it in another way."""
    for column, mask in present.masks.items():
        if options.masks.get(column) != mask:
            yield f"the mask of column {column!r}"
    for column in present.exclude:
        if column not in options.exclude:
            yield f"the exclusion of column {column!r}"
    if present.filter is not None and options.filter != present.filter:
        yield "the filter"
