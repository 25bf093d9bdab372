"""A valid metadata chain verifies; any change to it does not."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from app.domain.arrow import schema_from_bytes, schema_to_flatbuffer
from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import BatchSequence, FileNumber, Generation
from app.domain.publication import ChainBlock, ChainEvent, add_data, seed, set_data_schema, verify_chain
from mirrorgate.errors import Code, InvariantBroken
from tests.support.samples.schemas import schema_of

MOMENT = datetime(2026, 1, 5, 8, 30, tzinfo=UTC)
SCHEMA = schema_of({"id": "int64"}, ["id"]).file_schema(marker_first=False)
SEED = seed("t", Generation(1), UUID(int=7))


def data(number: int) -> ChainEvent:
    sequence = BatchSequence(number)
    return add_data(FileIdentity("t", Generation(1), FileNumber(number), sequence, sequence, 5, "ab"), 100, "cd", None)


def chain(*events: ChainEvent) -> list[ChainBlock]:
    blocks: list[ChainBlock] = []
    for number, event in enumerate(events):
        blocks.append(ChainBlock(number, blocks[-1].hash if blocks else None, MOMENT, event))
    return blocks


def test_a_chain_of_schema_and_files_holds_together() -> None:
    assert verify_chain(chain(SEED, set_data_schema(schema_to_flatbuffer(SCHEMA)), data(1), data(2))) == 4


def test_the_schema_event_has_only_the_schema_and_it_reads_back() -> None:
    event = set_data_schema(schema_to_flatbuffer(SCHEMA))
    assert set(event) == {"kind", "schema"}
    assert schema_from_bytes(base64.b64decode(event["schema"])) == SCHEMA


def test_the_canonical_form_is_sorted_unspaced_and_in_utc() -> None:
    local = MOMENT.astimezone(timezone(timedelta(hours=5)))
    text = ChainBlock(0, None, local, {"kind": "Seed", "table": "tä"}).canonical()
    assert text.decode() == (
        '{"event":{"kind":"Seed","table":"tä"},"prevBlockHash":null,"sequenceNumber":0,'
        '"systemTime":"2026-01-05T08:30:00.000000Z"}'
    )
    assert json.loads(text)["sequenceNumber"] == 0


def test_the_chain_of_a_table_has_the_same_hashes_in_every_release() -> None:
    """Verify stored chains by fixed values: a renamed key of an event would change every hash."""
    identity = FileIdentity("t", Generation(1), FileNumber(1), BatchSequence(3), BatchSequence(4), 5, "ab")
    file = add_data(identity, 100, "cd", "0007")
    assert seed("t", Generation(1), UUID(int=7)) == {
        "kind": "Seed",
        "table": "t",
        "generation": 1,
        "installationId": "00000000-0000-0000-0000-000000000007",
    }
    assert file == {
        "kind": "AddData",
        "fileNumber": 1,
        "rows": 5,
        "firstSequence": 3,
        "lastSequence": 4,
        "contentDigest": "ab",
        "fileBytes": 100,
        "fileSha256": "cd",
        "lastSourcePosition": "0007",
    }
    hashes = [block.hash for block in chain(SEED, file)]
    assert hashes == [
        "859011b3a30a3545fdad43b1f48cf30fe92a55b8cc37a95c5a45b9b9c94be0e2",
        "858b415a3cbf011d13b56dbd7a6e61494423022ff88c30709a9a062fb7d04bc5",
    ]


@pytest.mark.usefixtures("in_tokyo")
def test_hashes_do_not_depend_on_the_time_zone_of_the_machine() -> None:
    hashed = ChainBlock(0, None, MOMENT, SEED).hash
    assert hashed == "859011b3a30a3545fdad43b1f48cf30fe92a55b8cc37a95c5a45b9b9c94be0e2"


def test_events_are_sorted_by_their_keys() -> None:
    assert ChainBlock(0, None, MOMENT, {"b": 1, "a": 2}).hash == ChainBlock(0, None, MOMENT, {"a": 2, "b": 1}).hash


def test_data_before_its_schema_breaks_the_chain() -> None:
    with pytest.raises(InvariantBroken, match="block 1 adds data before a schema is set") as broken:
        verify_chain(chain(SEED, data(1), set_data_schema(schema_to_flatbuffer(SCHEMA))))
    assert broken.value.code is Code.BROKEN_CHAIN


BREAK: dict[str, Callable[[list[ChainBlock]], list[ChainBlock]]] = {
    "a changed event": lambda blocks: [*blocks[:2], replace(blocks[2], event=data(1) | {"rows": 6}), *blocks[3:]],
    "a changed time": lambda blocks: [replace(blocks[0], system_time=MOMENT + timedelta(seconds=1)), *blocks[1:]],
    "a missing block": lambda blocks: [*blocks[:2], *blocks[3:]],
    "a missing begin": lambda blocks: blocks[1:],
    "swapped blocks": lambda blocks: [*blocks[:2], blocks[3], blocks[2]],
    "a second seed": lambda _: chain(SEED, SEED),
    "a file number left out": lambda _: chain(SEED, set_data_schema(schema_to_flatbuffer(SCHEMA)), data(2)),
}


TOLD = {
    "a changed event": "block 3 does not have the hash of the block before it",
    "a changed time": "block 1 does not have the hash of the block before it",
    "a missing block": "block 2 has the number 3",
    "a missing begin": "block 0 has the number 1",
    "swapped blocks": "block 2 has the number 3",
    "a second seed": "block 1 breaks the rule that the first block, and no other, is a Seed",
    "a file number left out": "block 2 adds file 2 where 1 is next",
}


@pytest.mark.parametrize("how", BREAK)
def test_a_tampered_chain_does_not_verify(how: str) -> None:
    tampered = BREAK[how](chain(SEED, set_data_schema(schema_to_flatbuffer(SCHEMA)), data(1), data(2)))
    with pytest.raises(InvariantBroken) as broken:
        verify_chain(tampered)
    assert (broken.value.code, broken.value.detail) == (Code.BROKEN_CHAIN, TOLD[how])
