"""Comment every table and column with its purpose in one line; `migrations/schema.sql` shows them.

Kind: expand. Programs of r0019 continue to work: comments change nothing that they read or write.

A comment takes a lock that waits for vacuum and for the detaching of a payload partition, but not for requests.
"""

from alembic import op

revision = "r0020"
down_revision = "r0019"

TABLE = "Table that the row belongs to."
GENERATION = "Generation of the table."
ONLY_ROW = "Always true, so that the primary key allows one row."
PRINCIPAL = "Caller: the id of its key, or the subject of its token."
FOLDED_NAME = "Name of the table at that time, without letter case."

PURPOSES: dict[str, tuple[str, dict[str, str]]] = {
    "alembic_version": (
        "Schema revision of this database, kept by Alembic.",
        {"version_num": "Name of the last migration that was applied."},
    ),
    "installation": (
        "Identity of this database, and what holds for all its programs. One row.",
        {
            "only_row": ONLY_ROW,
            "installation_id": "Identity of the gateway; the landing zone and the folder markers name it.",
            "created_at": "When the database was first migrated.",
            "marker_first": "Whether the row marker is the first column of files; set once, by the first start.",
            "oldest_program": "Programs that need this revision, or a newer one, work with the schema as it is.",
        },
    ),
    "tables": (
        "Destination tables, each with one folder in the landing zone. Dropped tables stay, for their history.",
        {
            "table_id": "Id of the table; it survives renames and is never reused.",
            "name": "Name as registered: <schema>.<table> or <table>.",
            "folded_name": "Name without letter case; unique among the tables that are not dropped.",
            "generation": "Current lifetime of the folder, from 1; a recreate or rename starts the next one.",
            "state": "active, paused, quarantined, dropping or dropped.",
            "state_reason": "Why a quarantined table stopped, or why a drop has not ended yet.",
            "schema_version": "Current version in schema_versions.",
            "options": "Table options; docs/tables.md lists them.",
            "replicate_metadata": "Last metadata message of Qlik Replicate, and under `earlier` those before it.",
            "created_at": "When the table was registered.",
            "revision": "Grows with each change of options, routes or source columns; each batch is typed under one.",
            "column_stays": "Columns that left the source: null while gone, else the last batch before their return.",
            "arcion_catalog": "Catalog whose Arcion messages feed the table; null until a message names one.",
            "drop_plan": "While dropping: what follows once the folder is gone (drop, recreate or rename).",
            "folder_gone_at": "When a drain first found the folder of a dropping table gone (step R5).",
            "replicate_schema_ids": "Schema ids in replicate_metadata, by which a data message finds its tables.",
            "any_letter_case": "Whether sources match the name in any letter case, as they did before r0017.",
            "rewrite_marker": "An operator asked the next owner to write _gateway.json of the folder again.",
        },
    ),
    "schema_versions": (
        "Columns of each schema version of a generation. A version never changes.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "version": "Number of the version in its generation, from 1.",
            "key_columns": "Names of the key columns, in order; empty for a keyless table.",
            "columns": "Columns in order: name, type and whether they can be null.",
            "created_at": "When the version was registered.",
            "bare": "Whether landing files of this version have no row marker.",
        },
    ),
    "table_counters": (
        "Counters of the current generation. The lock of the row is the sequence lock, which orders the batches.",
        {
            "table_id": TABLE,
            "last_sequence": "Last batch sequence that was taken; 0 before the first batch.",
            "accepted_changes": "Changes that were accepted.",
            "accepted_rows": "Landing rows of the accepted changes.",
            "next_file_number": "Number that the next planned file gets.",
            "recorded_file_number": "Last file that is recorded as published; 0 before the first file.",
            "published_through": "Last batch sequence in a published file.",
            "cdc_started": "Whether changes other than snapshot rows were accepted.",
            "flush_through": "Batches through this sequence are published without waiting for a full or old file.",
        },
    ),
    "staged_blocks": (
        "Facts about accepted batches: one block is one or more consecutive batches of a table.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "first_sequence": "First batch sequence of the block.",
            "last_sequence": "Last batch sequence of the block.",
            "schema_version": "Schema version under which the rows were typed.",
            "batch_rows": "Landing rows of each batch.",
            "batch_changes": "Changes of each batch.",
            "row_count": "Landing rows of the block.",
            "change_count": "Changes of the block.",
            "payload_bytes": "Size of the payload.",
            "payload_digest": "SHA-256 of the payload, which each build verifies.",
            "staged_at": "When the block was staged.",
            "ends_transaction": "Whether the last change ends a source transaction; files end there if possible.",
            "source_position": "The source tool's own mark of the last change; null if it gives none.",
            "bucket": "Payload partition; the payload is in a later one if that was opened in between.",
        },
    ),
    "block_payloads": (
        "Payloads of the staged blocks. The key of each partition is (table_id, generation, first_sequence).",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "first_sequence": "First batch sequence of the block.",
            "payload": "Landing rows as one compressed Arrow IPC record batch, without its schema.",
            "bucket": "Number of the payload partition, in payload_buckets.",
        },
    ),
    "landing_files": (
        "Landing ledger: which batches make which file. Foreign keys chain each file to the one before it.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "number": "Number of the file, from 1 without a gap; with 20 digits it is the name.",
            "first_sequence": "First batch sequence in the file; 1 for a seed file, which has no batch.",
            "last_sequence": "Last batch sequence in the file; 0 for a seed file.",
            "schema_version": "Schema version of the file.",
            "row_count": "Landing rows in the file.",
            "change_count": "Changes in the file.",
            "digest": "SHA-256 over the digests of the payloads, in order; also in the footer of the file.",
            "state": "planned (bound to its batches, perhaps visible) or published (visible and recorded).",
            "planned_at": "When the file was planned (step W4).",
            "nominated_epoch": "Epoch in which the build was registered (step W5).",
            "nominated_temp": "Registered build: the only file in scratch that can take the number in that epoch.",
            "file_bytes": "Size of the registered build.",
            "file_sha256": "SHA-256 of the bytes of the registered build.",
            "published_at": "When the file was recorded as published (step W8).",
            "repair_requested": "An operator asked to write the published file again under its number.",
            "begins_ledger": "Whether the file is the oldest that is kept, because retention deleted those before it.",
            "preceding_number": "Number of the file before it; null where the ledger begins.",
            "preceding_sequence": "Last batch sequence of the file before it; null where the ledger begins.",
        },
    ),
    "workers": (
        "Drains that are alive, or were less than a day ago.",
        {
            "worker_id": "Random id of the drain.",
            "started_at": "When the drain started.",
            "heartbeat_at": "When the drain last renewed its lease.",
            "lease_until": "Until when no other drain can claim the tables of this one.",
            "lease_seconds": "Length of the lease; null if the program is older than r0012.",
            "clock_behind_seconds": "How far the drain's clock is behind the database's; negative if it is ahead.",
            "waits_for": "Error code of what keeps the drain from publishing anything; null while it publishes.",
        },
    ),
    "table_leases": (
        "Leases: which drain can publish which table, and under which epoch.",
        {
            "table_id": TABLE,
            "epoch": "Grows with each claim; a durable step under an older epoch fails.",
            "worker_id": "Drain that claimed the table last; it owns the table while it is alive.",
            "revoked_through": "No process of these epochs lives any more; their revocation markers are not needed.",
        },
    ),
    "api_keys": (
        "API keys: who can call the API, with which rights on which tables.",
        {
            "key_id": "Public part of the key mg_<key_id>_<secret>.",
            "secret_hash": "SHA-256 of the newest secret.",
            "rights": "One or more of ingest, read, register and admin.",
            "table_patterns": "Patterns of the table names that the rights are for.",
            "created_at": "When the key was created.",
            "expires_at": "When the key ends; null for never.",
            "last_used_at": "When the key was last used; each API process writes it once a minute at most.",
            "requests_per_second": "Requests a second in each API process; null for the limit of its settings.",
            "bytes_per_second": "Bytes a second in each API process; null for the limit of its settings.",
        },
    ),
    "metadata_blocks": (
        "Metadata chain: the schemas and published files of a generation, each block with the hash of the one before.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "sequence_number": "Number of the block in the chain, from 0.",
            "block_hash": "SHA-256 of the block.",
            "previous_hash": "Hash of the block before it; null in block 0.",
            "system_time": "When the block was appended.",
            "event": "What the block records; its `kind` is Seed in block 0 and nowhere else.",
            "preceding_number": "Number of the block before it; null in block 0.",
        },
    ),
    "table_sources": (
        "Names that lead to a table besides its own: those of the option `sources`, and its new name during a rename.",
        {
            "folded_source": "Name of the source without letter case; it feeds one table.",
            "table_id": "Table that the source feeds.",
        },
    ),
    "source_positions": (
        "How far each source task has come, for tables that enforce the order of the source.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "task": "Name of the source task.",
            "last_sequence": "Last accepted change sequence, with 35 digits so that texts sort as numbers.",
        },
    ),
    "row_images": (
        "Latest source values of each row, which complete partial updates.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "row_key": "Canonical form of the key values, or its digest if it is longer than 256 bytes.",
            "sequence": "Batch sequence that wrote the image.",
            "image": "Source values as JSON, by column position.",
        },
    ),
    "table_events": (
        "What operators and the drain did to tables; kept when the table is gone.",
        {
            "event_id": "Order of the event; audit_events takes its ids from the same sequence.",
            "table_id": TABLE,
            "folded_name": FOLDED_NAME,
            "generation": GENERATION,
            "happened_at": "When it was done.",
            "actor": "Caller that asked for it, or `drain`.",
            "action": "What was done, such as drop, pause or quarantined.",
            "reason": "Why, as the operator or the drain stated it.",
            "details": "Facts about it, such as the plan of a drop.",
            "request_id": "Request that asked for it.",
        },
    ),
    "producers": (
        "Producers that number their requests.",
        {
            "principal": PRINCIPAL,
            "producer": "Name of the producer.",
            "last_sequence": "Number of its last accepted request; the next one must follow without a gap.",
        },
    ),
    "request_receipts": (
        "Answers to accepted requests that callers can repeat.",
        {
            "principal": PRINCIPAL,
            "name": "Idempotency key, or the name of the producer if there is a producer sequence.",
            "producer_sequence": "Number that the producer gave to the request; 0 if the name is an idempotency key.",
            "fingerprint": "SHA-256 of the request; a repeat must have the same one.",
            "answer": "Answer that a repeat gets.",
            "created_at": "When the request was accepted.",
        },
    ),
    "payload_buckets": (
        "Payload partitions: one is open, the next one is attached ahead, and those before are closed.",
        {
            "bucket": "Number of the partition block_payloads_<bucket>.",
            "state": "ahead, open or closed.",
            "opened_at": "When staging began to write into the partition.",
            "closed_at": "When the next partition was opened.",
        },
    ),
    "purged_totals": (
        "Totals of the oldest blocks and files of a generation that retention deleted.",
        {
            "table_id": TABLE,
            "generation": GENERATION,
            "through_sequence": "Last batch sequence whose block is deleted.",
            "changes": "Changes of the deleted blocks.",
            "rows": "Landing rows of the deleted blocks.",
            "files": "Number of the last file that is deleted from the ledger.",
            "file_batches": "Last batch sequence of the deleted files.",
            "file_changes": "Changes of the deleted files.",
            "file_rows": "Landing rows of the deleted files.",
        },
    ),
    "mirror_states": (
        "Replication status: what Fabric last reported about each table.",
        {
            "table_id": TABLE,
            "generation": "Generation that the report is about.",
            "state": "State of the replication, in the words of Fabric.",
            "error": "Error that Fabric reported, as <code>: <message>.",
            "processed_rows": "Rows that Fabric has processed.",
            "processed_bytes": "Bytes that Fabric has processed.",
            "last_sync_at": "When Fabric last synchronized the table.",
            "read_at": "When a drain read the report.",
        },
    ),
    "mirror_readings": (
        "When a drain last claimed the reading of Fabric's report, so that one drain reads it at a time. One row.",
        {"only_row": ONLY_ROW, "read_at": "When a drain last claimed the reading."},
    ),
    "former_key_secrets": (
        "Secrets that a rotation has replaced; each works until its overlap ends.",
        {
            "key_id": "Key that had the secret.",
            "secret_hash": "SHA-256 of the secret.",
            "valid_until": "When the secret stops working.",
        },
    ),
    "audit_events": (
        "Rejections, counted by the minute, and operations on keys and registrations; table_events has the rest.",
        {
            "event_id": "Order of the event among those of table_events too.",
            "happened_at": "When it happened; for rejections the minute in which they are counted.",
            "request_id": "Request of an operation; null for rejections.",
            "subject": "Caller; null if it is unknown.",
            "action": "Operation that was done or rejected.",
            "folded_name": "Name of the table without letter case; null if it is about none.",
            "status": "HTTP status of the rejections; null for an operation.",
            "code": "Error code of the rejections; null for an operation.",
            "times": "How often it was rejected in that minute; 1 for an operation.",
            "details": "Facts about an operation.",
        },
    ),
    "dead_letters": (
        "Rejected messages of accepted requests, kept until an operator replays or discards them.",
        {
            "letter_id": "Id of the dead letter, in the order of arrival.",
            "table_id": TABLE,
            "generation": GENERATION,
            "format": "Format of the message: arcion, arcion_csv or replicate.",
            "reading": "What the request stated about how to read the message.",
            "message": "Message as the source wrote it.",
            "errors": "Why the message was rejected.",
            "message_index": "Position of the message in its request, from 0.",
            "principal": "Caller of the request.",
            "request_name": "Idempotency key, or the name of the producer if there is a producer sequence.",
            "producer_sequence": "Number that the producer gave to the request.",
            "received_at": "When the request was accepted.",
            "state": "waiting, replayed or discarded.",
            "settled_at": "When the message was replayed or discarded.",
            "settled_by": "Who replayed or discarded the message.",
            "corrected": "Whether the replayed message was corrected before.",
            "replayed_sequence": "Batch sequence that has the replayed message.",
        },
    ),
    "table_failures": (
        "Last failure of each table that has not been published since.",
        {
            "table_id": TABLE,
            "generation": "Generation whose publication failed.",
            "code": "Error code of the last failure.",
            "detail": "Text of the last failure.",
            "remedy": "What the operator can do.",
            "tries": "Failed tries in a row.",
            "since": "When the first of these tries failed.",
            "last_at": "When the last try failed.",
        },
    ),
    "landing_zone": (
        "Landing zone that this gateway publishes into. One row, written by the first start of a drain.",
        {
            "only_one": ONLY_ROW,
            "zone_id": "Id in _scratchPad/_gateway.json of the zone.",
            "location": "Address under which the zone was last used.",
            "since": "When the gateway began to use this zone.",
        },
    ),
}
"""The purpose of each table, and of its columns."""

FUNCTION = "Number of the open payload partition."


def upgrade() -> None:
    """Write the comments; those of earlier revisions are replaced."""
    statements = [f"COMMENT ON FUNCTION mirrorgate.current_bucket() IS '{FUNCTION}'"]
    for table, (purpose, columns) in PURPOSES.items():
        statements.append(f"COMMENT ON TABLE mirrorgate.{table} IS {_quoted(purpose)}")
        statements += [
            f"COMMENT ON COLUMN mirrorgate.{table}.{name} IS {_quoted(text)}" for name, text in columns.items()
        ]
    op.execute(";\n".join(statements))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
