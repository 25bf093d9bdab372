"""Errors of an HTTP request as a whole: path, parameters, headers, size, encoding and speed."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

REQUESTS: Final[Mapping[Code, Entry]] = {
    Code.BAD_REQUEST: Entry(
        Kind.MALFORMED,
        "A parameter, header or field of the body is missing or not valid.",
        "Correct what the detail names and send the request again. Nothing of it was staged.",
    ),
    Code.BAD_LAYOUT: Entry(
        Kind.INVALID,
        "A layout of Replicate messages is not valid.",
        'Correct the part at the pointer. docs/formats.md, "Layouts", lists the parts and how places are written.',
    ),
    Code.UNKNOWN_LAYOUT: Entry(
        Kind.MISSING,
        "No layout has this name.",
        "List the layouts with GET /v1/layouts, or store this one with PUT /v1/layouts/{name}.",
    ),
    Code.LAYOUTS_FULL: Entry(
        Kind.CONFLICT,
        "The gateway keeps 1,000 layouts, and this one would be another.",
        "Delete a layout that no request names any more, with DELETE /v1/layouts/{name}. Replacing one needs no room.",
    ),
    Code.NOT_FOUND: Entry(Kind.MISSING, "The path does not exist.", "Look up the path in the gateway's /docs."),
    Code.METHOD_NOT_ALLOWED: Entry(
        Kind.METHOD,
        "The path exists, but does not support this method.",
        "Use a method that the Allow header lists, or look up the path in the gateway's /docs.",
    ),
    Code.HEAD_TOO_LARGE: Entry(
        Kind.HEAD_TOO_LARGE,
        "The request line and headers together, or the trailers of the body, exceed 64 KiB.",
        "Send fewer or shorter headers.",
    ),
    Code.BODY_TOO_LARGE: Entry(
        Kind.TOO_LARGE,
        "The body, or the rows that it becomes in the columns of its tables, exceed MIRRORGATE_MAX_BODY_BYTES.",
        "Split the messages over several requests.",
    ),
    Code.BODY_EXPANDS_TOO_MUCH: Entry(
        Kind.TOO_LARGE,
        "The decompressed body exceeds 1 MiB and is more than MIRRORGATE_MAX_EXPANSION times the size of the "
        "compressed one.",
        "Send fewer messages per request, or send the body uncompressed.",
    ),
    Code.TOO_MANY_MESSAGES: Entry(
        Kind.TOO_LARGE,
        "The request has more messages, records or rows than MIRRORGATE_MAX_REQUEST_MESSAGES.",
        "Split the messages over several requests.",
    ),
    Code.TOO_MANY_NESTED_VALUES: Entry(
        Kind.TOO_LARGE,
        "The values in a JSON body contain more than 1,000,000 arrays and objects.",
        "Split the messages over several requests, or send large documents as JSON text in a string.",
    ),
    Code.REQUEST_TIMEOUT: Entry(
        Kind.TOO_SLOW,
        "The body took longer than MIRRORGATE_BODY_SECONDS to arrive, or arrived slower than MIRRORGATE_MIN_BODY_RATE.",
        "Send the request again on a new connection. On a slow connection, send smaller requests. Nothing was staged.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: Entry(
        Kind.UNSUPPORTED_MEDIA,
        "The endpoint does not read this content type.",
        "Send JSON with `Content-Type: application/json` or `application/x-ndjson`. Arcion and plain rows can also be "
        "`text/csv`.",
    ),
    Code.UNSUPPORTED_ENCODING: Entry(
        Kind.UNSUPPORTED_MEDIA,
        "The endpoint does not read this content encoding, or the body has more than one.",
        "Send the body uncompressed, or compress it once and set `Content-Encoding: gzip` or `zstd`.",
    ),
    Code.BAD_ENCODING: Entry(
        Kind.MALFORMED,
        "The body does not match its Content-Encoding.",
        "Compress the whole body once, and name the encoding: `Content-Encoding: gzip` or `zstd`.",
    ),
    Code.EMPTY_REQUEST: Entry(Kind.INVALID, "The request has no message.", "Send at least one message."),
    Code.UNSTORABLE: Entry(
        Kind.INVALID,
        "Postgres cannot store a text of the request: the text is too long for an index, or has a character that "
        "Postgres does not support.",
        "Shorten the names and ids in the request. docs/limits.md lists their limits.",
    ),
}
