"""Errors of load sessions."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

LOADS: Final[Mapping[Code, Entry]] = {
    Code.UNKNOWN_LOAD: Entry(
        Kind.MISSING,
        "The table has no load session with this id, or it ended so long ago that it is no longer kept.",
        "List the table's loads with GET /v1/tables/{table}/loads, or begin one with POST.",
    ),
    Code.LOAD_OPEN: Entry(
        Kind.CONFLICT,
        "The table has an open load session, and it can have only one.",
        "Continue the open load, complete it, or abort it with DELETE /v1/tables/{table}/loads/{load}. Then begin "
        "another one.",
    ),
    Code.LOAD_ENDED: Entry(
        Kind.CONFLICT,
        "The load session takes no more rows: it is being completed, or it is completed, aborted or expired.",
        "Begin a new load and send all rows with its id. Nothing of this request was staged.",
    ),
    Code.LOAD_TABLE_MISMATCH: Entry(
        Kind.CONFLICT,
        "A request with `Mirrorgate-Load` has changes of another table than the load session.",
        "Send the rows of other tables in a request of their own, without the header or with a load of their table.",
    ),
    Code.LOAD_TAKES_ROWS: Entry(
        Kind.INVALID,
        "A request with `Mirrorgate-Load` has a change other than an insert, an upsert or a snapshot row.",
        "Send rows only. Send updates and deletes as changes of the stream, without the header.",
    ),
}
