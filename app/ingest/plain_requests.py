"""Requests that ask nothing of their table before they are staged: neither its schema nor its positions.

Nearly all are. Small ones are typed together when they are staged, large ones without a look at each change; the
others, and every request that is to be refused, take the way of `Typist`.
"""

from app.domain.access import Principal
from app.domain.input_limits import InputLimits
from app.domain.plain_rows import landing_rows_of_plain
from app.domain.request_identity import RequestIdentity
from app.domain.source_name import SourceName
from app.domain.table import Table
from app.domain.table_options import NewColumns, PartialUpdates, SourceOrder
from app.formats.arcion_plain import decode_plain
from app.ingest.decoded import Decoded
from app.ingest.directory import TableDirectory
from app.staging.typed_batch import TypedBatch
from app.staging.untyped_request import UntypedRequest
from app.telemetry import WRONG_HASHES


def untyped_request(
    decoded: Decoded, directory: TableDirectory, principal: Principal, identity: RequestIdentity | None
) -> UntypedRequest | None:
    """The request if all of it is for one table that is known, plain, and without row images."""
    if len(decoded.sources) != 1 or decoded.lines:
        return None
    (entry,) = decoded.sources
    if entry.refused:
        return None
    table = _plain_table(entry.source, decoded.requested, directory, principal)
    if table is None or table.options.partial_updates is PartialUpdates.COMPLETE:
        return None
    return UntypedRequest(table, entry.changes, identity, decoded.ignored)


def plain_arcion_batch(
    body: bytes,
    requested: SourceName | None,
    directory: TableDirectory,
    principal: Principal,
    *,
    override: bool,
    limits: InputLimits,
) -> TypedBatch | None:
    """The typed batch of an Arcion JSON body if it is plain, within the limits, and for one table that is known.

    Raises NotRemembered where the directory must first ask for the table.
    """
    if len(body) > limits.value_bytes:  # a value may be too long
        return None
    plain = decode_plain(body)
    if plain is None or plain.messages > limits.messages or (override and not requested):
        return None
    source = requested if override and requested else plain.source
    for name in filter(None, (source, requested)):
        directory.require_remembered(name)
    table = _plain_table(source, requested, directory, principal)
    if table is None or table.options.exclude:
        return None
    rules = table.row_rules
    rows = plain.rows(table.schema.names, table.schema.key_columns, rules.fillable)
    landing = landing_rows_of_plain(rows, rules) if rows else None
    if landing is None:
        return None
    WRONG_HASHES.inc(plain.wrong_hashes)
    return TypedBatch(table, landing)


def _plain_table(
    source: SourceName, requested: SourceName | None, directory: TableDirectory, principal: Principal
) -> Table | None:
    """The table that this source feeds, if it is known, and no change can ask for another schema or order."""
    table = directory.remembered(source, principal)
    if table is None or not table.state.accepts_changes or table.schema.bare:
        return None
    if requested is not None and directory.remembered(requested, principal) is not table:
        return None
    if source.catalog not in {None, table.arcion_catalog}:
        return None
    options = table.options
    is_plain = options.new_columns is NewColumns.REJECT and options.source_order is SourceOrder.ARRIVAL
    return table if is_plain else None
