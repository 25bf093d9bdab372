"""Errors of repeated and numbered requests, and of dead letters."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

REPEATS: Final[Mapping[Code, Entry]] = {
    Code.IDEMPOTENCY_KEY_REUSED: Entry(
        Kind.INVALID,
        "Another request, with a different path, query or body, used the same idempotency key.",
        "Use a new key for each request. Repeat a request byte for byte under its original key.",
    ),
    Code.PRODUCER_SEQUENCE_REUSED: Entry(
        Kind.INVALID,
        "Another request of the producer used the same number.",
        "Read the last durable number with GET /v1/producers/{producer}, and give new requests the numbers after it.",
    ),
    Code.PRODUCER_GAP: Entry(
        Kind.CONFLICT,
        "The producer skipped numbers: an earlier request is missing.",
        "Send the requests one after the other, starting at the expected number. If the gateway had accepted that "
        "number before, its database has gone back, as after a restore or failover: send everything since again.",
    ),
    Code.RECEIPT_EXPIRED: Entry(
        Kind.CONFLICT,
        "The request was accepted longer ago than receipts are kept.",
        "Do not send it again. Continue with the number after the last durable one: GET /v1/producers/{producer}.",
    ),
    Code.UNKNOWN_PRODUCER: Entry(
        Kind.MISSING,
        "The gateway has accepted nothing from this producer under the caller's key.",
        "Start with number 1.",
    ),
    Code.UNKNOWN_DEAD_LETTER: Entry(
        Kind.MISSING,
        "No table of this name has a dead letter with this id, or it is no longer kept.",
        "List the dead letters with GET /v1/tables/{table}/dead-letters.",
    ),
    Code.DEAD_LETTER_SETTLED: Entry(
        Kind.CONFLICT,
        "The dead letter was already replayed or discarded.",
        "Nothing is left to do. GET /v1/tables/{table}/dead-letters shows the outcome.",
    ),
    Code.DEAD_LETTERS_FULL: Entry(
        Kind.CONFLICT,
        "The rejected messages cannot be kept: the table has too many waiting dead letters, or a message is too long.",
        "Replay or discard the table's dead letters, or correct the messages. Nothing of the request was staged.",
    ),
}
