"""Who calls, and whether the key carries the right that a route needs. Default deny."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.domain.access import Principal, Right
from app.domain.api_key import ApiKey
from app.domain.names import TableName
from app.errors import Code, RejectedInput
from app.staging.api_keys import StoredKey, find_valid_key
from app.staging.database import Engine, translated_errors

CACHE_SECONDS: Final = 5.0
"""How long a looked-up key is believed: a deleted or expired key stops working within this time."""

bearer = HTTPBearer(
    scheme_name="apiKey", bearerFormat="mg_<id>_<secret>", auto_error=False, description="`mg_<id>_<secret>`"
)


class Authenticator:
    """Turns a bearer key into a principal; remembers keys for CACHE_SECONDS."""

    def __init__(self, engine: Engine, admin_key: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._admin_key = ApiKey.parse(admin_key) if admin_key else None
        self._clock = clock
        self._cache: dict[str, tuple[float, StoredKey | None]] = {}

    def principal(self, token: str | None) -> Principal:
        """Raises RejectedInput `unauthenticated` for no key, a malformed, wrong, deleted or expired one."""
        if token is None:
            raise RejectedInput(Code.UNAUTHENTICATED, "the request carries no key")
        key = ApiKey.parse(token)
        if self._admin_key is not None and key.key_id == self._admin_key.key_id:
            if key.matches(self._admin_key.secret_hash):
                return Principal(key.key_id, frozenset({Right.ADMIN}), ("*",))
            raise RejectedInput(Code.UNAUTHENTICATED, "the key is not valid")
        stored = self._find(key.key_id)
        if stored is None or not key.matches(stored.secret_hash):
            raise RejectedInput(Code.UNAUTHENTICATED, "the key is not valid")
        return stored.principal

    def remembered(self, token: str | None) -> Principal | None:
        """As `principal`, without a question to the database: None where it takes one."""
        asks = token is not None and not self._is_remembered(ApiKey.parse(token).key_id)
        return None if asks else self.principal(token)

    def _is_remembered(self, key_id: str) -> bool:
        if self._admin_key is not None and key_id == self._admin_key.key_id:
            return True
        looked_up, _ = self._cache.get(key_id, (float("-inf"), None))
        return self._clock() - looked_up <= CACHE_SECONDS / 2

    def _find(self, key_id: str) -> StoredKey | None:
        now = self._clock()
        looked_up, stored = self._cache.get(key_id, (float("-inf"), None))
        if now - looked_up > CACHE_SECONDS:
            with translated_errors(), self._engine.begin() as connection:
                stored = find_valid_key(connection, key_id)
            if len(self._cache) > 10_000:  # unknown ids must not fill the memory
                self._cache.clear()
            self._cache[key_id] = (now, stored)
        return stored


async def authorized(request: Request, right: Right) -> Principal:
    """The caller's principal. Raises RejectedInput `unauthenticated` or `forbidden`."""
    authenticator: Authenticator = request.app.state.gateway.authenticator
    token = _bearer_token(request)
    principal = authenticator.remembered(token)
    if principal is None:
        principal = await asyncio.to_thread(authenticator.principal, token)
    if not principal.has(right):
        raise RejectedInput(Code.FORBIDDEN, f"the key lacks the right `{right}`")
    return principal


def require(right: Right) -> Callable[..., Coroutine[None, None, Principal]]:
    """A dependency that gives the caller's principal, or refuses with 401 or 403."""

    async def dependency(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
    ) -> Principal:
        return await authorized(request, right)

    return dependency


def _bearer_token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


Ingester = Annotated[Principal, Depends(require(Right.INGEST))]
Reader = Annotated[Principal, Depends(require(Right.READ))]
Registrar = Annotated[Principal, Depends(require(Right.REGISTER))]
Administrator = Annotated[Principal, Depends(require(Right.ADMIN))]


def visible_name(text: str, principal: Principal) -> TableName:
    """A table name from a path that the caller may touch; one outside its patterns looks like a missing one."""
    name = TableName.parse(text)
    if not principal.may_touch(name):
        raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
    return name
