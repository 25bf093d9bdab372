"""Register a table with the columns of rows, or add those that it lacks: `mirrorgate.mirror` and `mirrorgate send`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorgate.arrow_rows import Columns, quoted
from mirrorgate.errors import Code
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import Patience
from mirrorgate.table_path import table_path


@dataclass
class TableRegistration:
    """The table that rows are for. `key` are the key columns that a new table gets."""

    client: GatewayClient
    table: str
    key: Sequence[str]
    patience: Patience
    keeps_images: bool = False
    """True if a new table keeps row images, which load sessions need."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of requests with the rows, which add columns that the table lacks."""

    def prepare(self, columns: Columns) -> Collection[str]:
        """Register the table if it is new, and set the parameters of requests with these columns.

        Return the columns to leave out of the requests: they have no value, and the table lacks them. Can be repeated
        after a crash. Raises RejectedByGateway, and TemporarilyUnavailable when patience ends.
        """
        path = table_path(self.table)
        try:
            known = self.patience.call(lambda: self.client.get(f"{path}/schema"))
        except RejectedByGateway as error:
            if error.code is not Code.UNKNOWN_TABLE:
                raise
            options = {"options": {"row_images": "on"}} if self.keeps_images else {}
            wanted = {**columns.definition(self.key), "key_columns": [*self.key], **options}
            self.patience.call(lambda: self.client.put(path, wanted))
            self.parameters = {}
            return columns.untyped
        types = {column["name"]: column["type"] for column in known["columns"]}
        lacking = {*columns.names}.difference(types)
        added = lacking.difference(columns.untyped) if lacking else lacking
        key = {name: types[name] for name in known["key_columns"]}
        key_columns = {"key_columns": ",".join(map(quoted, key))}
        self.parameters = {**columns.addition(added, key), **key_columns} if added else {}
        return lacking - added
