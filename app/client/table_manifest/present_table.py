"""A table as the gateway reports it, which a manifest is compared with."""

from dataclasses import dataclass

from app.domain.model.table import Generation, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class PresentTable:
    """A table as the gateway reports it."""

    name: str
    generation: Generation
    state: TableState
    schema: TableSchema
    options: TableOptions
