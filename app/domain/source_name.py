"""Names by which sources know tables, which may feed a table of another name."""

from dataclasses import dataclass

from app.domain.names import MAX_TEXT_BYTES, TableName, is_bounded
from app.errors import Code, RejectedInput


@dataclass(frozen=True, slots=True)
class SourceName:
    """A source's name for a table; with a catalog it means that catalog's table only."""

    catalog: str | None
    table: TableName

    @classmethod
    def parse(cls, text: str) -> "SourceName":
        """Read `name`, `schema.name` or `catalog.schema.name`. Raises RejectedInput `bad_name`."""
        catalog, _, rest = text.partition(".")
        if "." not in rest:
            return cls(None, TableName.parse(text))
        if not catalog:
            raise RejectedInput(Code.BAD_NAME, "the catalog's part of the name is empty")
        if not is_bounded(catalog):
            raise RejectedInput(Code.BAD_NAME, f"the catalog is longer than {MAX_TEXT_BYTES} UTF-8 bytes")
        return cls(catalog, TableName.parse(rest))

    @property
    def folded(self) -> str:
        """The form in which two source names are the same."""
        return self.table.folded if self.catalog is None else f"{self.catalog.casefold()}.{self.table.folded}"
