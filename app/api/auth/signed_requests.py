"""Signed change requests: a webhook sender shows a key by signing the body, in place of sending the key.

The id of a key is no secret, so a body that names it counts towards nothing of the key until its signature is found to
be right: it arrives in the room of callers without a valid key (`UnverifiedRoom`).

Invariant: before the signature was found to be right, nothing is staged, no part of the body is decoded, and nothing of
the key's share and rate is used.
"""

import asyncio
import re
import time
from typing import Final

from starlette.datastructures import QueryParams

from app.api.auth.authenticator import Authenticator
from app.api.auth.dependencies import authorize
from app.api.exchange import Exchange
from app.domain.access.rights import Principal, Right
from app.domain.access.signatures import MAX_SKEW_SECONDS, Signature
from app.errors import Code, RejectedInput

MAX_SIGNED_BODY_BYTES: Final = 2**20
"""Bytes of a signed body: it is read before the caller has shown a valid key."""

_KEY_ID: Final = re.compile(r"[0-9a-f]{8,32}")
_NOT_VALID: Final = "the signature is not that of the body as sent, with the signing secret of this key"


async def authorize_change(exchange: Exchange) -> Principal:
    """Return the caller of a change request, which may post changes. A signed body is verified once it is read.

    Raises RejectedInput `bad_signature`, and what `authorize` raises.
    """
    if exchange.head.signature and not exchange.head.authorization:
        await _expect_signature(exchange, exchange.head.signature.decode("latin-1"))
    return await authorize(exchange, Right.INGEST)


async def _expect_signature(exchange: Exchange, header: str) -> None:
    """Take the credential of the named key, on condition that the body has its signature, which is checked later.

    Raises RejectedInput `bad_signature`, and TemporarilyUnavailable `overloaded` if the key cannot be looked up now.
    """
    authenticator: Authenticator = exchange.scope["app"].gateway.authenticator
    key_id, signature = _key_id(exchange), Signature.parse(header)
    if signature is None:
        raise _bad("the signature must be sha256=<64 hexadecimal digits>, or t=<seconds>,v1=<64 hexadecimal digits>")
    if authenticator.needs_query(key_id):
        signer = await asyncio.to_thread(authenticator.signer, key_id)
    else:
        signer = authenticator.signer(key_id)
    if signer is None:
        raise _bad(_NOT_VALID)
    credential, secret = signer
    exchange.subject = credential.subject

    def verify(body: bytes) -> None:
        if not signature.is_of(body, secret, time.time()):
            skew = f", or its time is more than {MAX_SKEW_SECONDS} s off" if signature.time else ""
            raise _bad(_NOT_VALID + skew)
        exchange.reservation.assign_to(credential.subject)
        authenticator.rate_limiter.admit(credential, len(body), exchange)
        authenticator.note_use(credential.subject)

    exchange.expect_signed_body(verify, MAX_SIGNED_BODY_BYTES)
    exchange.credential = credential


def _key_id(exchange: Exchange) -> str:
    """Return the id of the key in `Mirrorgate-Key-Id` or `?key_id=`."""
    given = exchange.head.key_id.decode("latin-1")
    if not given:
        given = QueryParams(exchange.scope["query_string"]).get("key_id", "")
    if not _KEY_ID.fullmatch(given):
        raise _bad("a signed request needs the id of its key in the header Mirrorgate-Key-Id or in ?key_id=")
    return given


def _bad(detail: str) -> RejectedInput:
    return RejectedInput(Code.BAD_SIGNATURE, detail)
