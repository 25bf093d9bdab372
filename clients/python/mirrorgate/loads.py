"""Load sessions, which reload a table beside its stream of changes, and columns for tables that rows need.

Begin a load, post rows with its `headers` in any format and any number of requests, then complete it. All calls can be
repeated after a lost answer, also by another process that knows the id of the load.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from uuid import uuid4

from mirrorgate.arrow_rows import Columns, is_operation, quoted
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.parameters import table_path
from mirrorgate.producer import Patience

LOAD_HEADER: Final = "Mirrorgate-Load"

Mode = Literal["full", "append"]


@dataclass(frozen=True, slots=True)
class Load:
    """A load session of a table. `patience` says how long a call is repeated while the gateway is unreachable.

    For example:

        with GatewayClient(url, key) as gateway:
            load = Load.begin(gateway, "shop.orders", "full")
            gateway.post_changes("rows", b'[{"id": 1}]', table="shop.orders", headers=load.headers)
            load.complete()  # deletes the rows that were not sent
    """

    client: GatewayClient
    table: str
    load_id: str
    patience: Patience = field(default_factory=Patience)

    @classmethod
    def begin(
        cls,
        client: GatewayClient,
        table: str,
        mode: Mode,
        *,
        load_id: str | None = None,
        patience: Patience | None = None,
    ) -> Self:
        """Begin a load. With the UUID of one that is open, continue it.

        Raises RejectedByGateway, with `load_open` while the table has another open load.
        """
        load = cls(client, table, load_id or str(uuid4()), patience or Patience())
        load.patience.call(lambda: client.post(f"{table_path(table)}/loads", {"mode": mode, "load": load.load_id}))
        return load

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of requests with rows of this load."""
        return {LOAD_HEADER: self.load_id}

    def status(self) -> Mapping[str, Any]:
        """Return the load as the gateway describes it. Raises RejectedByGateway `unknown_load`."""
        status: Mapping[str, Any] = self.patience.call(lambda: self.client.get(self._path))
        return status

    def complete(self, on_progress: Callable[[Mapping[str, Any]], None] = lambda _: None) -> Mapping[str, Any]:
        """Complete the load, and return its final status; `on_progress` gets each one before it.

        A full load deletes the rows that neither it nor the stream has written since it began. Raises RejectedByGateway
        `load_ended` for a load that was aborted or has expired.
        """
        while True:
            status: Mapping[str, Any] = self.patience.call(lambda: self.client.post(f"{self._path}/complete", None))
            if status["state"] == "completed":
                return status
            on_progress(status)

    def abort(self) -> Mapping[str, Any]:
        """End the load without deletes, and return its final status. What it landed remains."""
        status: Mapping[str, Any] = self.patience.call(lambda: self.client.delete(self._path))
        return status

    @property
    def _path(self) -> str:
        return f"{table_path(self.table)}/loads/{self.load_id}"


def no_columns() -> RejectedInput:
    """Return the error for data that says nothing of its table."""
    remedy = "Pass a DataFrame without rows that has the columns of the table: with `full`, it deletes all rows."
    return RejectedInput(Code.EMPTY_REQUEST, "the data has neither rows nor columns", remedy=remedy)


@dataclass
class TableRegistration:
    """The table that rows are for. `key` are the key columns that a new table gets."""

    client: GatewayClient
    table: str
    key: Sequence[str]
    patience: Patience
    keeps_images: bool = False
    """True if a new table keeps row images, which load sessions need."""
    only_inserts: bool = False
    """True if all rows are inserts, which a table without key columns accepts."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of requests with the rows, which add columns that the table lacks."""

    def prepare(self, columns: Columns) -> Collection[str]:
        """Register the table if it is new, and set the parameters of requests with these columns.

        Return the columns to leave out of the requests: they have no value, and the table lacks them. Can be repeated
        after a crash. Raises RejectedInput `no_key` before a table is registered that would accept none of the rows,
        RejectedByGateway, and TemporarilyUnavailable when patience ends.
        """
        path = table_path(self.table)
        try:
            known = self.patience.call(lambda: self.client.get(f"{path}/schema"))
        except RejectedByGateway as error:
            if error.code is not Code.UNKNOWN_TABLE:
                raise
            if not columns.names:
                raise no_columns() from error
            if not self.key and not self.only_inserts:
                detail = f"table {self.table} is new, and no key columns are given"
                remedy = "Give the key columns: --key-columns of the command, `key` in Python."
                raise RejectedInput(Code.NO_KEY, detail, remedy=remedy) from error
            if valueless := next((name for name in self.key if name in columns.untyped), None):
                raise RejectedInput(Code.NULL_KEY, f"key column {valueless} has no value in these rows") from error
            options = {"options": {"row_images": "on"}} if self.keeps_images else {}
            wanted = {**columns.definition(self.key), "key_columns": [*self.key], **options}
            self.patience.call(lambda: self.client.put(path, wanted))
            self.parameters = {}
            return columns.untyped
        types = {column["name"]: column["type"] for column in known["columns"]}
        lacking = {*columns.names}.difference(types)
        left_out = lacking.intersection(columns.untyped) if lacking else lacking
        added = {name for name in lacking - left_out if not is_operation(name)}
        key = {name: types[name] for name in known["key_columns"]}
        key_columns = {"key_columns": ",".join(map(quoted, key))}
        self.parameters = {**columns.addition(added, key), **key_columns} if added else {}
        return left_out
