"""Who calls, and whether the key or token carries the right that a route needs. Default deny."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Protocol

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits.memory_budget import reservation_of
from app.api.limits.rate_limits import RateLimiter
from app.api.server.body_errors import RejectedReading
from app.api.server.request_facts import declared_length, facts_of
from app.domain.access.api_key import ApiKey, hash_secret, looks_like_a_token
from app.domain.access.rate_limit import NO_LIMITS
from app.domain.access.rights import EVERY_TABLE, Credential, Grant, Principal, Right
from app.domain.access.token_claims import SUBJECT_PREFIX
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.errors import Code, MirrorgateError, RejectedInput
from app.staging.access.api_keys import StoredKey, find_key
from app.staging.access.audit_writer import AuditWriter
from app.staging.connection.database import Engine, translated_errors

CACHE_SECONDS: Final = 5.0
"""How long a looked-up key is believed: a deleted, expired or rotated key stops working within this time."""

TRY_AGAIN_SECONDS: Final = 1.0
"""A key is looked up at most so often because of a secret that it does not have: it may have been rotated."""

MOST_KEYS: Final = 10_000
"""That are remembered."""

_CREDENTIAL: Final = "mirrorgate.credential"
"""In the scope of a request whose caller has shown a valid key or token."""

bearer = HTTPBearer(
    scheme_name="apiKey",
    bearerFormat="mg_<id>_<secret>",
    auto_error=False,
    description="`mg_<id>_<secret>`, or an access token of the OpenID Connect issuer that is set",
)


class TokenVerifier(Protocol):
    """Knows whose tokens are; see `app.api.auth.oidc`."""

    def prepare(self) -> None:
        """Get ready for the first token, beside what else is done."""

    def credential(self, token: str) -> Credential:
        """Raises RejectedInput `unauthenticated` or TemporarilyUnavailable `issuer_unavailable`."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A key, None for none, as it was looked up; `tried_again` is when that was for the sake of another secret."""

    key: StoredKey | None
    looked_up: float
    tried_again: float


@dataclass(frozen=True, slots=True)
class _Proved:
    """A credential, and the remembered key whose secret proved it; None for the administrator's, which stays."""

    credential: Credential
    key: _Remembered | None


class Authenticator:
    """Tells whose a key or token is; remembers keys for CACHE_SECONDS."""

    def __init__(
        self,
        engine: Engine,
        admin_key: str | None,
        audit_writer: AuditWriter,
        tokens: TokenVerifier | None = None,
        rate_limiter: RateLimiter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._admin_key = ApiKey.parse(admin_key) if admin_key else None
        self._audit_writer = audit_writer
        self._tokens = tokens
        self.rate_limiter = rate_limiter or RateLimiter(NO_LIMITS)
        self._clock = clock
        self._cache: dict[str, _Remembered] = {}
        self._proved: dict[bytes, _Proved] = {}
        """By the hash of a whole key: what its holder need not prove again while the key is fresh."""

    def credential(self, token: str | None) -> Credential:
        """Raises RejectedInput `unauthenticated` for no key, a malformed, wrong, deleted or expired one."""
        if token is None:
            raise RejectedInput(Code.UNAUTHENTICATED, "the request carries no key")
        if self._tokens is not None and looks_like_a_token(token):
            return self._tokens.credential(token)
        return self._credential_of(ApiKey.parse(token))

    def remembered(self, token: str | None) -> Credential | None:
        """As `credential`, without a question to the database or an issuer: None where it may take one."""
        if token is None:
            return self.credential(token)
        if self._tokens is not None and looks_like_a_token(token):
            return None
        token_hash = hash_secret(token)
        proved = self._proved.get(token_hash)
        if proved is not None and self._still_holds(proved):
            return proved.credential
        key = ApiKey.parse(token)
        if self._may_ask(key):
            return None
        credential = self._credential_of(key)
        if len(self._proved) > MOST_KEYS:
            self._proved.clear()
        self._proved[token_hash] = _Proved(credential, self._proof_of(key))
        return credential

    def _proof_of(self, key: ApiKey) -> _Remembered | None:
        is_admin_key = self._admin_key is not None and key.key_id == self._admin_key.key_id
        return None if is_admin_key else self._cache[key.key_id]

    def _still_holds(self, proved: _Proved) -> bool:
        """Whether nobody has looked for the key anew since, and it is fresh; then it was used."""
        if proved.key is None:
            return True
        key_id = proved.credential.subject
        if self._cache.get(key_id) is not proved.key or not self._is_fresh(proved.key):
            return False
        self._audit_writer.note_key_use(key_id)
        return True

    def _credential_of(self, key: ApiKey) -> Credential:
        if self._admin_key is not None and key.key_id == self._admin_key.key_id:
            if key.matches(self._admin_key.secret_hash):
                return Credential(key.key_id, (Grant(frozenset({Right.ADMIN}), (EVERY_TABLE,)),))
            raise RejectedInput(Code.UNAUTHENTICATED, "the key is not valid")
        stored = self._find(key)
        if stored is None or not key.matches_any(stored.secret_hashes):
            raise RejectedInput(Code.UNAUTHENTICATED, "the key is not valid")
        self._audit_writer.note_key_use(key.key_id)
        return stored.credential

    def _may_ask(self, key: ApiKey) -> bool:
        if self._admin_key is not None and key.key_id == self._admin_key.key_id:
            return False
        remembered = self._cache.get(key.key_id)
        if remembered is None or remembered.key is None:
            return True
        return not (self._is_fresh(remembered) and key.matches_any(remembered.key.secret_hashes))

    def _is_fresh(self, remembered: _Remembered) -> bool:
        """For half of the time, so that it does not end before the key is taken."""
        return self._clock() - remembered.looked_up <= CACHE_SECONDS / 2

    def tried_key(self, token: str | None) -> str | None:
        """The id in a rejected key, where there is such a key; never what else a caller may claim."""
        try:
            key_id = ApiKey.parse(token or "").key_id
        except RejectedInput:
            return None
        is_admin_key = self._admin_key is not None and key_id == self._admin_key.key_id
        remembered = self._cache.get(key_id)
        is_stored = remembered is not None and remembered.key is not None
        return key_id if is_admin_key or is_stored else None

    def _find(self, key: ApiKey) -> StoredKey | None:
        """The stored key of this id; looked up again for a secret that may be new."""
        now = self._clock()
        remembered = self._cache.get(key.key_id)
        if remembered is None or now - remembered.looked_up > CACHE_SECONDS:
            return self._look_up(key.key_id, now, remembered.tried_again if remembered else float("-inf"))
        found = remembered.key
        if found is None or key.matches_any(found.secret_hashes) or now - remembered.tried_again < TRY_AGAIN_SECONDS:
            return found
        return self._look_up(key.key_id, now, tried_again=now)

    def _look_up(self, key_id: str, now: float, tried_again: float) -> StoredKey | None:
        with translated_errors(), self._engine.begin() as connection:
            found = find_key(connection, key_id)
        if len(self._cache) > MOST_KEYS:  # unknown ids must not fill the memory
            self._cache.clear()
        self._cache[key_id] = _Remembered(found, now, tried_again)
        return found


class AuthenticatedBodies:
    """Lets nobody read a byte of a body before its caller has shown a valid key or token, whatever the route.

    The framework reads the bodies of its routes before it asks for the caller's rights. A body that cannot be read is
    rejected with 401, and the connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def receive_of_known_caller() -> Message:
            if _CREDENTIAL not in scope:
                try:
                    await authenticated(Request(scope))
                except MirrorgateError as error:
                    raise RejectedReading(error) from error
            return await receive()

        await self._app(scope, receive_of_known_caller, send)


async def authenticated(request: Request) -> Credential:
    """The caller's credential, looked up once for each request, which then counts towards the caller's limits.

    Raises RejectedInput `unauthenticated`, TemporarilyUnavailable `rate_limited` or `overloaded`, and what the look-up
    raises.
    """
    known: Credential | None = request.scope.get(_CREDENTIAL)
    if known is not None:
        return known
    authenticator: Authenticator = request.app.state.gateway.authenticator
    header = request.headers.get("authorization", "")
    if header.lstrip().startswith("mg_"):
        raise RejectedInput(Code.UNAUTHENTICATED, "the Authorization header lacks `Bearer ` before the key")
    token = _bearer_token(header)
    facts = facts_of(request.scope)
    try:
        credential = authenticator.remembered(token)
        if credential is None:
            credential = await asyncio.to_thread(authenticator.credential, token)
    except RejectedInput:
        facts.subject = authenticator.tried_key(token)
        raise
    facts.subject = credential.subject
    authenticator.rate_limiter.admit(credential, declared_length(request.scope), facts)
    reservation_of(request).claim(credential.subject)
    request.scope[_CREDENTIAL] = credential
    return credential


async def authorized(request: Request, right: Right, *, every_table: bool = False) -> Principal:
    """The caller's principal. Raises RejectedInput `forbidden`, and what `authenticated` raises."""
    credential = await authenticated(request)
    principal = credential.acting_by(right)
    if principal is None:
        raise RejectedInput(Code.FORBIDDEN, f"the {_kind(credential)} lacks the right `{right}`")
    if every_table and not principal.oversees_every_table:
        what = _kind(credential)
        raise RejectedInput(Code.FORBIDDEN, f"the {what} has the right `{right}` for some tables, not for all (`*`)")
    return principal


def _kind(credential: Credential) -> str:
    return "token" if credential.subject.startswith(SUBJECT_PREFIX) else "key"


def require(right: Right, *, every_table: bool = False) -> Callable[..., Coroutine[None, None, Principal]]:
    """A dependency that gives the caller's principal, or rejects with 401 or 403."""

    async def dependency(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
    ) -> Principal:
        return await authorized(request, right, every_table=every_table)

    return dependency


def _bearer_token(header: str) -> str | None:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


Ingester = Annotated[Principal, Depends(require(Right.INGEST))]
Reader = Annotated[Principal, Depends(require(Right.READ))]
Registrar = Annotated[Principal, Depends(require(Right.REGISTER))]
Administrator = Annotated[Principal, Depends(require(Right.ADMIN))]
Overseer = Annotated[Principal, Depends(require(Right.ADMIN, every_table=True))]
"""An administrator of all tables: keys and the audit are about more than those of one pattern."""


def check_sources(sources: Iterable[str], principal: Principal) -> None:
    """Raises RejectedInput `unknown_table` for a source's name outside the caller's patterns."""
    for source in map(SourceName.parse, sources):
        if not principal.may_name(source):
            raise RejectedInput(Code.UNKNOWN_TABLE, "no such table", withheld=source.without_catalog.folded)


def visible_name(text: str, principal: Principal) -> TableName:
    """A table name from a path that the caller may touch; one outside its patterns looks like a missing one."""
    name = TableName.parse(text)
    if not principal.may_touch(name):
        raise RejectedInput(Code.UNKNOWN_TABLE, "no such table", withheld=name.folded)
    return name
