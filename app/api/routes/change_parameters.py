"""Query parameters of the change routes, one model per format, and the headers that identify a request."""

import csv
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from app.api.auth.dependencies import bearer
from app.api.server.request_parameters import Parameters, openapi_parameters
from app.domain.access.rights import Principal
from app.domain.model.request_identity import RequestIdentity, fingerprint
from app.domain.model.table_options import OptionValue
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.errors import Code, RejectedInput
from app.ingest import CsvLayout, CsvMode

_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
MAX_SEQUENCE: Final = 2**63 - 1


class OnReject(OptionValue):
    """What happens to a request with a rejected message."""

    REJECT = "reject"
    DEAD_LETTER = "dead_letter"


class ChangeParameters(Parameters):
    """Parameters of every format."""

    table: Annotated[
        str | None,
        Field(description="The table of all messages; required if the messages do not name it."),
    ] = None
    dry_run: Annotated[
        bool,
        Field(description="Return the rows that would land, and stage nothing. Nothing is registered either."),
    ] = False

    on_reject: Annotated[
        OnReject,
        Field(
            description="`dead_letter`: keep rejected messages of tables with `dead_letters=accept`, and accept the "
            "other messages."
        ),
    ] = OnReject.REJECT

    @property
    def keeps_rejected(self) -> bool:
        """Return True if rejected messages become dead letters. Raises RejectedInput `bad_request` for a dry run."""
        if self.dry_run and self.on_reject is OnReject.DEAD_LETTER:
            raise RejectedInput(Code.BAD_REQUEST, "dry_run=true cannot be combined with on_reject=dead_letter")
        return self.on_reject is OnReject.DEAD_LETTER


class OverrideParameters(ChangeParameters):
    """Parameters of Arcion's JSON."""

    override: Annotated[
        bool, Field(description="Apply every message to `table`, whatever table the message names.")
    ] = False


class ReplicateParameters(ChangeParameters):
    """Parameters of Replicate's messages."""

    partition: Annotated[
        str | None,
        Field(
            description="The partition of the task's topic that holds all messages. Tables with "
            "`source_order=enforce` keep one position per partition.",
            min_length=1,
            max_length=MAX_PARTITION_CHARACTERS,
            pattern="^[!-~]+$",
        ),
    ] = None


class CsvParameters(Parameters):
    """Parameters that describe the layout of a CSV body."""

    mode: Annotated[CsvMode | None, Field(description="CSV: the mode in which Replicant wrote the file; required.")] = (
        None
    )
    columns: Annotated[
        str | None,
        Field(description="CSV: the column names in file order, separated by commas. Quote a name with a comma."),
    ] = None
    header: Annotated[bool, Field(description="CSV: the first record is a header.")] = False
    delimiter: Annotated[str, Field(description="CSV: the character between fields.")] = ","
    quote: Annotated[str, Field(description="CSV: the character around quoted fields.")] = '"'
    escape: Annotated[
        str | None,
        Field(description="CSV: the character before a quote inside a field; by default the quote character."),
    ] = None

    @property
    def layout(self) -> CsvLayout:
        """Return the layout. Raises RejectedInput `bad_request` without a mode."""
        if self.mode is None:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires mode=snapshot or mode=realtime")
        names = next(csv.reader([self.columns or ""], skipinitialspace=True), [])
        columns = tuple(name.strip() for name in names)
        return CsvLayout(self.mode, columns, self.header, self.delimiter, self.quote, self.escape or self.quote)


class LoadParameters(Parameters):
    """Parameters of initial loads."""

    table: Annotated[str | None, Field(description="The table of the rows; required.")] = None


class IdentityHeaders(Parameters):
    """Either an idempotency key, or a producer with its number, or none of them."""

    idempotency_key: Annotated[
        str | None,
        Field(
            alias="Idempotency-Key",
            description="The name of the request, up to 255 visible ASCII characters. A repeat gets the first answer.",
        ),
    ] = None
    producer: Annotated[
        str | None,
        Field(
            alias="Mirrorgate-Producer",
            description="The name of the producer that numbers its requests; it belongs to the caller's key.",
        ),
    ] = None
    producer_sequence: Annotated[
        int | None,
        Field(
            alias="Mirrorgate-Producer-Sequence",
            ge=1,
            le=MAX_SEQUENCE,
            description="The number of the request: 1 for the first, then always one more.",
        ),
    ] = None

    def identity(self, request: Request, principal: Principal, body: bytes) -> RequestIdentity | None:
        """Return the identity of this request, or None without these headers. `body` is the decompressed body.

        Raises RejectedInput `bad_request` for headers that contradict each other or are malformed.
        """
        key, producer, sequence = self.idempotency_key, self.producer, self.producer_sequence
        if key is None and producer is None and sequence is None:
            return None
        if (producer is None) != (sequence is None):
            detail = "Mirrorgate-Producer and Mirrorgate-Producer-Sequence must be sent together"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        if key is not None and producer is not None:
            raise RejectedInput(Code.BAD_REQUEST, "send an Idempotency-Key or a producer's number, not both")
        name = producer if key is None else _unquote(key)
        if name is None or not _NAME.fullmatch(name):
            detail = "an Idempotency-Key or Mirrorgate-Producer must have 1 to 255 visible ASCII characters"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        print_ = fingerprint(request.method, request.url.path, request.url.query, body)
        return RequestIdentity(principal.key_id, name, print_, sequence or 0)


def openapi_extra(body: Mapping[str, Any], *parameters: type[Parameters]) -> dict[str, Any]:
    """Return the part of a change route's contract that FastAPI cannot derive, because it reads none of the input."""
    described = [entry for model in parameters for entry in openapi_parameters(model, "query")]
    described += openapi_parameters(IdentityHeaders, "header")
    return {**body, "parameters": described, "security": [{bearer.scheme_name: []}]}


def _unquote(key: str) -> str:
    """Remove the quotes of the IETF draft's form; both forms name the same key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
