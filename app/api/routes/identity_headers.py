"""The headers by which a caller may repeat a request without landing anything twice."""

import re
from typing import Annotated, Final

from fastapi import Request
from pydantic import Field

from app.api.server.query_parameters import Parameters
from app.domain.access.rights import Principal
from app.domain.model.request_identity import RequestIdentity, fingerprint
from app.errors import Code, RejectedInput

_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
MOST_SEQUENCE: Final = 2**63 - 1


class IdentityHeaders(Parameters):
    """An idempotency key, or a producer with its number; none of them, or one of the two."""

    idempotency_key: Annotated[
        str | None,
        Field(
            alias="Idempotency-Key",
            description="Names the request, up to 255 visible ASCII characters: repeated, it is answered as before.",
        ),
    ] = None
    producer: Annotated[
        str | None,
        Field(
            alias="Mirrorgate-Producer",
            description="Who sends: the producer whose requests are numbered, under the caller's key.",
        ),
    ] = None
    producer_sequence: Annotated[
        int | None,
        Field(
            alias="Mirrorgate-Producer-Sequence",
            ge=1,
            le=MOST_SEQUENCE,
            description="The request's number: 1 at first, then always one more.",
        ),
    ] = None

    def identity(self, request: Request, principal: Principal, body: bytes) -> RequestIdentity | None:
        """What names this request with its decompressed body. Raises RejectedInput `bad_request`."""
        key, producer, sequence = self.idempotency_key, self.producer, self.producer_sequence
        if key is None and producer is None and sequence is None:
            return None
        if (producer is None) != (sequence is None):
            raise RejectedInput(Code.BAD_REQUEST, "Mirrorgate-Producer and Mirrorgate-Producer-Sequence go together")
        if key is not None and producer is not None:
            raise RejectedInput(Code.BAD_REQUEST, "give an Idempotency-Key or a producer's number, not both")
        name = producer if key is None else _unquoted(key)
        if name is None or not _NAME.fullmatch(name):
            raise RejectedInput(Code.BAD_REQUEST, "a key or producer has 1 to 255 visible ASCII characters")
        print_ = fingerprint(request.method, request.url.path, request.url.query, body)
        return RequestIdentity(principal.key_id, name, print_, sequence or 0)


def _unquoted(key: str) -> str:
    """The IETF draft writes the key as a quoted string; both forms are one key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
