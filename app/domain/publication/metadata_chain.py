"""The metadata chain of one table generation: its schemas and published files, each block bound to the last by hash.

Blocks are `{sequenceNumber, prevBlockHash, systemTime, event}`, hashed as SHA-256 over RFC 8785 canonical JSON.
`SetDataSchema` is the event of the ODF specification: the Arrow schema of the files with the row marker, as a raw
flatbuffer in base64.
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
"""An event with its `kind`; keys are ASCII names, values are texts, integers or null."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `previous_hash` is None for the first; `system_time` has an offset and whole microseconds."""

    sequence_number: int
    previous_hash: str | None
    system_time: datetime
    event: Event

    def canonical(self) -> bytes:
        """Return the RFC 8785 form: sorted keys, no whitespace. With integers and ASCII names only, this is exact."""
        values = {
            "event": self.event,
            "prevBlockHash": self.previous_hash,
            "sequenceNumber": self.sequence_number,
            "systemTime": self.system_time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, as hex."""
        return hashlib.sha256(self.canonical()).hexdigest()


def seed(table: str, generation: Generation, installation_id: UUID) -> Event:
    """Return the first event of a chain, which names its table, generation and gateway."""
    return {"kind": "Seed", "table": table, "generation": generation, "installationId": str(installation_id)}


def set_data_schema(flatbuffer: bytes) -> Event:
    """Return the event with the schema of all following files, as `schema_to_flatbuffer` writes it."""
    return {"kind": "SetDataSchema", "schema": base64.b64encode(flatbuffer).decode()}


def add_data(identity: FileIdentity, file_bytes: int, file_sha256: str, source_position: str | None) -> Event:
    """Return the event of a published file; `source_position` is that of its last change, if it has one."""
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
    """Return the number of blocks of a valid chain.

    Raises InvariantBroken `broken_chain` for a wrong number or hash, a first block that is not a Seed, data before a
    schema, or file numbers other than 1 to n.
    """
    count, files, previous, has_schema = 0, 0, None, False
    for block in blocks:
        kind = block.event["kind"]
        if block.sequence_number != count:
            raise _broken(count, f"has the number {block.sequence_number}")
        if block.previous_hash != previous:
            raise _broken(count, "does not have the hash of the block before it")
        if (kind == "Seed") != (count == 0):
            raise _broken(count, "breaks the rule that the first block, and no other, is a Seed")
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
