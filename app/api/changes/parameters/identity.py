"""The headers that name a request, and the part of a change route's contract that both kinds of parameters make."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field
from starlette.datastructures import Headers

from app.api.auth.dependencies import bearer
from app.api.changes.parameters.fingerprint import fingerprint
from app.api.exchange import Exchange
from app.api.server.request_parameters import Parameters, openapi_parameters, read_parameters
from app.domain.loads.load_session import LoadId
from app.domain.model.request_identity import RequestIdentity
from app.errors import Code, RejectedInput

_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
_POSITION: Final = "^[!-~]([ -~]*[!-~])?$"
MAX_SEQUENCE: Final = 2**63 - 1


class IdentityHeaders(Parameters):
    """Either an idempotency key, or a producer with its number and perhaps its position, or none; and the load."""

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
    producer_position: Annotated[
        str | None,
        Field(
            alias="Mirrorgate-Producer-Position",
            min_length=1,
            max_length=256,
            pattern=_POSITION,
            description="How far the request reaches in the producer's source, in the producer's own words: visible "
            "ASCII characters, with blanks only between them. It is stored with the data.",
        ),
    ] = None

    load: Annotated[
        UUID | None,
        Field(
            alias="Mirrorgate-Load",
            description="The id of the load session that the rows belong to.",
        ),
    ] = None

    @property
    def load_id(self) -> LoadId | None:
        """The load session of the request, None for a change of the stream."""
        return None if self.load is None else LoadId(str(self.load))

    def check_stages_all(self, *, dry_run: bool, keeps_rejected: bool) -> None:
        """Raise RejectedInput `bad_request` if rows of a load would not all be staged: it would delete the others."""
        if self.load is not None and (dry_run or keeps_rejected):
            detail = "Mirrorgate-Load cannot be combined with dry_run=true or on_reject=dead_letter"
            raise RejectedInput(Code.BAD_REQUEST, detail)

    def identity(self, exchange: Exchange, body: bytes) -> RequestIdentity | None:
        """Return the identity of this request, or None without these headers. `body` is the decompressed body.

        Raises RejectedInput `bad_request` for headers that contradict each other or are malformed.
        """
        key, producer, sequence = self.idempotency_key, self.producer, self.producer_sequence
        position = self.producer_position
        if position is not None and producer is None:
            detail = "Mirrorgate-Producer-Position requires Mirrorgate-Producer and Mirrorgate-Producer-Sequence"
            raise RejectedInput(Code.BAD_REQUEST, detail)
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
        scope = exchange.scope
        print_ = fingerprint(
            scope["method"], scope["path"], scope["query_string"].decode(), body, position, self.load_id
        )
        return RequestIdentity(exchange.subject or "", name, print_, sequence or 0, position)


_NO_IDENTITY: Final = IdentityHeaders()


def identity_headers(exchange: Exchange) -> IdentityHeaders:
    """Return the headers that name a request. Raises FastAPI's RequestValidationError."""
    if not exchange.head.has_identity:
        return _NO_IDENTITY
    return read_parameters(IdentityHeaders, "header", Headers(scope=exchange.scope))


def openapi_extra(body: Mapping[str, Any], *parameters: type[Parameters]) -> dict[str, Any]:
    """Return the part of a change route's contract that FastAPI cannot derive, because it reads none of the input."""
    described = [entry for model in parameters for entry in openapi_parameters(model, "query")]
    described += openapi_parameters(IdentityHeaders, "header")
    return {**body, "parameters": described, "security": [{bearer.scheme_name: []}, {"signature": []}]}


def _unquote(key: str) -> str:
    """Remove the quotes of the IETF draft's form; both forms name the same key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
