"""Errors of the bridges. They end a bridge or stop a partition or table of it, and appear in its log and status."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

BRIDGES: Final[Mapping[Code, Entry]] = {
    Code.SOURCE_UNAVAILABLE: Entry(
        Kind.UNAVAILABLE,
        "The source of a bridge does not answer: the brokers, the schema registry or the object storage.",
        "The bridge tries again until it answers. Check the address, the network and the credentials of the source.",
    ),
    Code.SOURCE_REJECTED: Entry(
        Kind.MISCONFIGURED,
        "The source of a bridge rejects what the bridge asks for: an unknown topic or bucket, or a missing right.",
        "Correct the name in the bridge's file, or grant the right that the detail names.",
    ),
    Code.SOURCE_POSITION_LOST: Entry(
        Kind.CONFLICT,
        "The source no longer has what follows the durable position: it was recreated, cut off or deleted by "
        "retention.",
        "Decide what to read next, as the detail says. Nothing was sent, and the position is unchanged.",
    ),
    Code.SOURCE_ORDER_UNSAFE: Entry(
        Kind.CONFLICT,
        "The bridge cannot keep the order that a table needs: the number of partitions has changed, or an object "
        "appeared or changed behind the position.",
        "Decide as the detail says. Nothing was sent out of order.",
    ),
    Code.UNREADABLE_RECORD: Entry(
        Kind.MALFORMED,
        "A record or file of the source cannot be turned into messages, for example because its schema is unknown.",
        "Correct the settings of the topic or source in the bridge's file, or the program that wrote the record.",
    ),
    Code.PRODUCER_SHARED: Entry(
        Kind.CONFLICT,
        "Another process sends under the same producer name.",
        "Run one bridge under each name: stop the other process, or give this one another name.",
    ),
}
