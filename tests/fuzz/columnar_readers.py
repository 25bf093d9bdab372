"""How differential fuzzing calls the product: one reader per format, over tables that are cached, without Postgres."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Never, Protocol

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change
from app.domain.model.input_limits import UNLIMITED
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import DEFAULT_OPTIONS, PartialUpdates, TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.landing_rows import RowRules
from app.errors import Code, RejectedInput
from app.formats.arcion.messages import decode_arcion
from app.ingest.columnar.arcion import ArcionRequest
from app.ingest.columnar.reading import ColumnarRequest
from app.ingest.table_cache import TableCache
from tests.fuzz import arcion_bodies
from tests.fuzz.bodies import Dice
from tests.support.samples.schemas import schema_of

ANYONE: Final = Principal("fuzz", frozenset({Right.INGEST}), ("*",))
KEYS: Final[Mapping[str, tuple[str, ...]]] = {"keys": ("a", "b"), "loose": ()}
"""Key columns by table, if not the first one."""
OPTIONS: Final[Mapping[str, TableOptions]] = {"filled": TableOptions(partial_updates=PartialUpdates.COMPLETE)}


class Reader(Protocol):
    """One format: makes messages, and reads bodies on both paths."""

    @property
    def tables(self) -> Sequence[str]:
        """The tables that messages can be made for."""

    @property
    def cache(self) -> TableCache:
        """Finds the tables."""

    @property
    def rules(self) -> Mapping[TableId, RowRules]:
        """The rules of each table."""

    def message(self, table: str, dice: Dice) -> str:
        """Return a random message for a table."""

    def request(self, body: bytes) -> ColumnarRequest:
        """Return the request that the columnar path reads."""

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table. Raises RejectedInput."""


class ArcionReader:
    """Arcion JSON without parameters."""

    def __init__(self) -> None:
        tables = {
            SourceName.of(None, "shop", name): table_of(number, name, columns)
            for number, (name, columns) in enumerate(arcion_bodies.TABLES.items(), 1)
        }
        self.tables = [*arcion_bodies.TABLES]
        self.cache = TableCache(_no_database, dict(tables))
        self.rules = {table.table_id: RowRules.of(table) for table in tables.values()}
        self.message = arcion_bodies.arcion_message
        self._ids = {source: table.table_id for source, table in tables.items()}

    def request(self, body: bytes) -> ColumnarRequest:
        """Return the request that the columnar path reads."""
        return ArcionRequest(body, None, False, UNLIMITED, ANYONE)

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table. Raises RejectedInput."""
        found: dict[TableId, list[Change]] = {}
        for source, change in ((addressed.source, addressed.change) for addressed in decode_arcion(body)):
            if source not in self._ids:
                raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
            found.setdefault(self._ids[source], []).append(change)
        return found


def table_of(number: int, name: str, columns: Mapping[str, str]) -> Table:
    """Return a table with these columns."""
    keys = KEYS.get(name, tuple(columns)[:1])
    return Table(
        TableId(number),
        TableName.of("shop", name),
        Generation(1),
        TableState.ACTIVE,
        SchemaVersion(1),
        schema_of(columns, keys),
        OPTIONS.get(name, DEFAULT_OPTIONS),
    )


def _no_database() -> Never:
    raise AssertionError("no query is needed: all tables are cached")


READERS: Final[Mapping[str, Callable[[], Reader]]] = {"arcion": ArcionReader}
