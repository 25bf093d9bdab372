"""Checks of the caller for routes: authenticate the request, require a right, and check the names of tables.

Everything is denied by default. `authorize_change` is for the change endpoints; the annotated types (`Reader`, …) are
FastAPI dependencies of the other routes, made by `require`.

`authorize_change` also accepts signed requests: a webhook sender shows a key by signing the body, in place of sending
the key. A key's id is not secret, so a body that names it counts towards nothing of the key until its signature is
found to be right: it arrives in the room of callers without a valid key (`UnverifiedRoom`). Invariant: before the
signature was found to be right, nothing is staged, no part of the body is decoded, and nothing of the key's share and
rate is used.
"""

import asyncio
import base64
import re
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import QueryParams

from app.api.auth.authenticator import Authenticator
from app.api.exchange import Exchange, exchange_of
from app.domain.access.rights import MAX_SKEW_SECONDS, Credential, Principal, Right, Signature
from app.domain.access.sign_in import SUBJECT_PREFIX
from app.domain.model.names import SourceName, TableName, unknown_table
from mirrorgate.errors import Code, RejectedInput

bearer = HTTPBearer(
    scheme_name="apiKey",
    bearerFormat="mg_<id>_<secret>",
    auto_error=False,
    description="An API key (`mg_<id>_<secret>`), or an access token of the configured OpenID Connect issuer.",
)


async def authenticate(exchange: Exchange) -> Credential:
    """Return the caller's credential. The first call for a request counts it towards the limits of the caller.

    Raises RejectedInput `unauthenticated`, TemporarilyUnavailable `rate_limited` or `overloaded`, and what the look-up
    raises.
    """
    if exchange.credential is not None:
        return exchange.credential
    authenticator: Authenticator = exchange.scope["app"].gateway.authenticator
    token = _bearer_token(exchange.head.authorization.decode("latin-1"))
    try:
        credential = authenticator.cached_credential(token)
        if credential is None:
            credential = await asyncio.to_thread(authenticator.credential, token)
    except RejectedInput:
        exchange.subject = authenticator.known_key_id(token)
        raise
    exchange.subject = credential.subject
    authenticator.rate_limiter.admit(credential, exchange.head.content_length, exchange)
    exchange.reservation.assign_to(credential.subject)
    exchange.credential = credential
    return credential


async def authorize(exchange: Exchange, right: Right, *, every_table: bool = False) -> Principal:
    """Return the caller as a principal with this right, for every table if asked for.

    Raises RejectedInput `forbidden`, and what `authenticate` raises.
    """
    credential = await authenticate(exchange)
    principal = credential.acting_by(right)
    if principal is None:
        raise RejectedInput(Code.FORBIDDEN, f"the {_kind(credential)} lacks the right `{right}`")
    if every_table and not principal.oversees_every_table:
        kind = _kind(credential)
        raise RejectedInput(Code.FORBIDDEN, f"the {kind} has the right `{right}` for some tables, not for all (`*`)")
    return principal


def require(right: Right, *, every_table: bool = False) -> Callable[..., Coroutine[None, None, Principal]]:
    """Return a FastAPI dependency that gives the caller's principal, or rejects the request with 401 or 403."""

    async def dependency(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
    ) -> Principal:
        return await authorize(exchange_of(request.scope), right, every_table=every_table)

    return dependency


async def _credential(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Credential:
    return await authenticate(exchange_of(request.scope))


Authenticated = Annotated[Credential, Depends(_credential)]
"""A caller of any right, for routes that need another one by their parameters."""
Ingester = Annotated[Principal, Depends(require(Right.INGEST))]
Reader = Annotated[Principal, Depends(require(Right.READ))]
Administrator = Annotated[Principal, Depends(require(Right.ADMIN))]
Overseer = Annotated[Principal, Depends(require(Right.ADMIN, every_table=True))]
"""An administrator of all tables: keys and the audit concern more than the tables of one pattern."""


def check_sources(sources: Iterable[str], principal: Principal) -> None:
    """Raise RejectedInput `unknown_table` for a source name outside the caller's patterns."""
    for source in map(SourceName.parse, sources):
        if not principal.may_name(source):
            raise unknown_table(source.without_catalog, withheld=source.without_catalog.folded)


def visible_name(text: str, principal: Principal) -> TableName:
    """Parse a table name from a path. A name outside the caller's patterns is answered like an unknown table.

    Raises RejectedInput `bad_name` or `unknown_table`.
    """
    name = TableName.parse(text)
    if not principal.may_touch(name):
        raise unknown_table(name, withheld=name.folded)
    return name


def _kind(credential: Credential) -> str:
    return "token" if credential.subject.startswith(SUBJECT_PREFIX) else "key"


def _bearer_token(header: str) -> str | None:
    """Return the token of an Authorization header, None without one. The password of Basic is the whole key.

    Raises RejectedInput `unauthenticated` for a key without its scheme.
    """
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if scheme.lower() == "basic":
        return _password(token.strip())
    if header.lstrip().startswith("mg_"):
        raise RejectedInput(Code.UNAUTHENTICATED, "the Authorization header lacks `Bearer ` before the key")
    return None


def _password(credentials: str) -> str:
    """Return the password of Basic credentials. The user name can be anything.

    Raises RejectedInput `unauthenticated` for anything but base64 of `<user>:<key>`.
    """
    try:
        _, colon, password = base64.b64decode(credentials, validate=True).decode("latin-1").partition(":")
    except ValueError:
        colon = password = ""
    if not colon or not password.startswith("mg_"):
        raise RejectedInput(Code.UNAUTHENTICATED, "the Basic credentials are not <any name>:mg_<id>_<secret>")
    return password


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
