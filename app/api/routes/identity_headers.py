"""Headers that identify a change request, so that a repeat of it lands nothing twice."""

import re
from typing import Annotated, Final

from fastapi import Request
from pydantic import Field

from app.api.server.request_parameters import Parameters
from app.domain.access.rights import Principal
from app.domain.model.request_identity import RequestIdentity, fingerprint
from app.errors import Code, RejectedInput

_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
MAX_SEQUENCE: Final = 2**63 - 1


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


def _unquote(key: str) -> str:
    """Remove the quotes of the IETF draft's form; both forms name the same key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
