"""The metadata chain of one table generation: what its files hold, said before they are written, each block
bound to the one before it by hash.

Blocks are `{sequenceNumber, prevBlockHash, systemTime, event}`, hashed as SHA-256 over RFC 8785 canonical JSON.
`SetDataSchema` is the event of ODF's specification: the Arrow schema of the files, row marker included, as a raw
flatbuffer, which JSON carries in base64.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import Generation
from app.errors import Code, InvariantBroken

Event: TypeAlias = Mapping[str, Any]
"""An event with its `kind`; members are ASCII names, values are text, whole numbers or null."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `previous_hash` is None for the first; `system_time` has an offset and whole microseconds."""

    sequence_number: int
    previous_hash: str | None
    system_time: datetime
    event: Event

    def canonical(self) -> bytes:
        """RFC 8785 form: sorted members, no blanks. Our numbers are whole and our names ASCII, so this is exact."""
        members = {
            "event": self.event,
            "prevBlockHash": self.previous_hash,
            "sequenceNumber": self.sequence_number,
            "systemTime": self.system_time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()


def seed(table: str, generation: Generation, installation_id: UUID) -> Event:
    """The first event of a chain: whose chain it is."""
    return {"kind": "Seed", "table": table, "generation": generation, "installationId": str(installation_id)}


def set_data_schema(flatbuffer: bytes) -> Event:
    """The schema of every file that follows, as `schema_to_flatbuffer` writes it, until the next such event."""
    return {"kind": "SetDataSchema", "schema": base64.b64encode(flatbuffer).decode()}


def add_data(identity: FileIdentity, file_bytes: int, file_sha256: str, source_position: str | None) -> Event:
    """One published landing file; `source_position` is the tool's own mark of its last change, where it has one."""
    return {
        "kind": "AddData",
        "fileNumber": identity.number,
        "rows": identity.rows,
        "firstSequence": identity.first_sequence,
        "lastSequence": identity.last_sequence,
        "contentDigest": identity.digest,
        "fileBytes": file_bytes,
        "fileSha256": file_sha256,
        "lastSourcePosition": source_position,
    }


def verify_chain(blocks: Iterable[Block]) -> int:
    """The number of blocks of a chain that holds together.

    Raises InvariantBroken `broken_chain` for a wrong number or hash, a first block that is no Seed, data before a
    schema, or file numbers that are not 1..n.
    """
    count, files, previous, has_schema = 0, 0, None, False
    for block in blocks:
        kind = block.event["kind"]
        if block.sequence_number != count:
            raise _broken(count, f"has the number {block.sequence_number}")
        if block.previous_hash != previous:
            raise _broken(count, "does not carry the hash of the block before it")
        if (kind == "Seed") != (count == 0):
            raise _broken(count, "a chain has one Seed, at its begin")
        if kind == "AddData":
            files += 1
            if not has_schema:
                raise _broken(count, "adds data before a schema is set")
            if block.event["fileNumber"] != files:
                raise _broken(count, f"adds file {block.event['fileNumber']} where {files} is next")
        has_schema = has_schema or kind == "SetDataSchema"
        count, previous = count + 1, block.hash
    return count


def _broken(sequence_number: int, reason: str) -> InvariantBroken:
    return InvariantBroken(Code.BROKEN_CHAIN, f"block {sequence_number} {reason}")
