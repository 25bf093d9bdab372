"""Turn API keys and tokens into credentials, and cache keys for a few seconds.

A key is looked up in Postgres once per CACHE_SECONDS. The cache can return a deleted, expired or rotated key for that
long, and never a key whose secret was not checked against its hash.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from app.api.auth.oidc import OidcVerifier
from app.api.limits import RateLimiter
from app.domain.access.rights import (
    EVERY_TABLE,
    NO_LIMITS,
    ApiKey,
    Credential,
    Grant,
    Right,
    TokenBucket,
    hash_secret,
    looks_like_a_token,
    signing_secret,
)
from app.staging.access.api_keys import StoredKey, find_key, list_key_ids
from app.staging.access.audit_events import AuditWriter
from app.staging.connection.database import Engine, translated_errors
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

CACHE_SECONDS: Final = 5.0
"""Seconds for which a cached key is valid: a deleted or expired key or secret stops working within this time."""

MIN_RECHECK_SECONDS: Final = 1.0
"""Shortest time between look-ups of a key because of a wrong secret. The secret can be new after a rotation."""

MAX_CACHED_KEYS: Final = 10_000
"""Beyond it the cache is cleared. It holds only keys that exist."""

MAX_UNKNOWN_IDS: Final = 1_000
"""Ids that are not a key's and are remembered; the oldest one is forgotten first."""

MAX_UNKNOWN_LOOK_UPS: Final = 100
"""Look-ups per second that find no key. Beyond it, one query per IDS_SECONDS tells which ids exist."""

IDS_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """A key that was found."""

    key: StoredKey
    looked_up: float
    rechecked: float
    """Time at which it was last looked up because of a wrong secret."""


@dataclass(frozen=True, slots=True)
class _VerifiedSecret:
    """A credential, and the cached key that its secret matched; None for the administrator's key, which is constant."""

    credential: Credential
    key: _CachedKey | None


class _UnknownIds:
    """Ids that callers name and that are not a key's, so that these cost Postgres little. Thread-safe.

    An id is not a secret and can be made up, so each caller can name as many as it likes. Those that no key has take no
    place from keys in the cache. Once too many were looked up in vain, only ids that exist are looked up. A key that
    was created since the ids were read is then answered with 503 for IDS_SECONDS.
    """

    def __init__(self, read_ids: Callable[[], frozenset[str]], clock: Callable[[], float]) -> None:
        self._read_ids = read_ids
        self._clock = clock
        self._looked_up: dict[str, float] = {}
        self._vain = TokenBucket(MAX_UNKNOWN_LOOK_UPS, clock())
        self._existing = frozenset[str]()
        self._read_at = float("-inf")
        self._lock = Lock()

    def has(self, key_id: str) -> bool:
        """Return True if no key had this id a moment ago."""
        looked_up = self._looked_up.get(key_id)
        return looked_up is not None and self._clock() - looked_up <= CACHE_SECONDS

    def add(self, key_id: str) -> None:
        """Note that this id was looked up in vain."""
        with self._lock:
            self._vain.spend(1)
            self._looked_up.pop(key_id, None)
            if len(self._looked_up) >= MAX_UNKNOWN_IDS:
                del self._looked_up[next(iter(self._looked_up))]
            self._looked_up[key_id] = self._clock()

    def check(self, key_id: str) -> None:
        """Raise TemporarilyUnavailable `overloaded` if this id must not be looked up now."""
        with self._lock:
            now = self._clock()
            if self._vain.seconds_to_wait(now) <= 0:
                return
            if now - self._read_at > IDS_SECONDS:
                self._existing, self._read_at = self._read_ids(), now
            if key_id in self._existing:
                return
        raise TemporarilyUnavailable(
            Code.OVERLOADED, "many calls name keys that do not exist, so no new one is looked up", retry_after=1
        )


class Authenticator:
    """Lookup of the credential of a key or token. Used by the event loop and by worker threads."""

    def __init__(
        self,
        engine: Engine,
        admin_key: str | None,
        audit_writer: AuditWriter,
        tokens: OidcVerifier | None = None,
        rate_limiter: RateLimiter | None = None,
        signing_key: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._admin_key = ApiKey.parse(admin_key) if admin_key else None
        self._audit_writer = audit_writer
        self._tokens = tokens
        self._signing_key = signing_key
        self.rate_limiter = rate_limiter or RateLimiter(NO_LIMITS)
        self._clock = clock
        self._cache: dict[str, _CachedKey] = {}
        self._unknown = _UnknownIds(self._read_ids, clock)
        self._verified: dict[bytes, _VerifiedSecret] = {}
        """By the hash of a whole key: secrets that need no second check while their key is fresh."""

    @property
    def settings_key_id(self) -> str | None:
        """The id of the administrator's key of the settings; None without one."""
        return None if self._admin_key is None else self._admin_key.key_id

    def credential(self, token: str | None) -> Credential:
        """Return the credential of a key or token. Can query Postgres and the issuer.

        Raises RejectedInput `unauthenticated` for a missing, malformed, wrong, deleted or expired one, and
        TemporarilyUnavailable `overloaded` if it is not known while many calls name keys that do not exist.
        """
        if token is None:
            raise RejectedInput(Code.UNAUTHENTICATED, "the request has no API key")
        if self._tokens is not None and looks_like_a_token(token):
            return self._tokens.credential(token)
        return self._credential_of(ApiKey.parse(token))

    def cached_credential(self, token: str | None) -> Credential | None:
        """Return the credential if no query is needed for it; None if `credential` may need one.

        The event loop calls this first: a cached key then takes no worker thread (performance notebook). Raises what
        `credential` raises.
        """
        if token is None:
            return self.credential(token)
        if self._tokens is not None and looks_like_a_token(token):
            return None
        token_hash = hash_secret(token)
        verified = self._verified.get(token_hash)
        if verified is not None and self._is_valid(verified):
            return verified.credential
        key = ApiKey.parse(token)
        if self._needs_look_up(key):
            return None
        credential = self._credential_of(key)
        cached = self._cache.get(key.key_id)
        if cached is not None or self._is_admin_key(key.key_id):  # else another thread has just found it deleted
            if len(self._verified) > MAX_CACHED_KEYS:
                self._verified.clear()
            self._verified[token_hash] = _VerifiedSecret(credential, cached)
        return credential

    def needs_query(self, key_id: str) -> bool:
        """Return True if `signer` may query Postgres for this id, so that an event loop must not call it."""
        cached = self._cache.get(key_id)
        return not self._unknown.has(key_id) if cached is None else not self._is_fresh(cached)

    def signer(self, key_id: str) -> tuple[Credential, str] | None:
        """Return the credential and signing secret of a key that signs bodies, None without one. May query Postgres."""
        key = self._present(key_id)
        if self._signing_key is None or key is None or key.signing_salt is None:
            return None
        return key.credential, signing_secret(self._signing_key, key_id, key.signing_salt)

    def holder(self, key_id: str) -> tuple[Credential, tuple[bytes, ...]] | None:
        """Return the credential of a key with the hashes of its accepted secrets, for a session that a secret began.

        None if the key is deleted or has expired. May query Postgres.
        """
        if self._admin_key is not None and self._is_admin_key(key_id):
            return _administrator(self._admin_key), (self._admin_key.secret_hash,)
        key = self._present(key_id)
        return None if key is None or not key.secret_hashes else (key.credential, key.secret_hashes)

    def note_use(self, key_id: str) -> None:
        """Record that a key was used now."""
        self._audit_writer.note_key_use(key_id)

    def known_key_id(self, token: str | None) -> str | None:
        """Return the id in a rejected key if a key of this id exists: nothing else that a caller claims is logged."""
        try:
            key_id = ApiKey.parse(token or "").key_id
        except RejectedInput:
            return None
        return key_id if self._is_admin_key(key_id) or key_id in self._cache else None

    def _is_admin_key(self, key_id: str) -> bool:
        return self._admin_key is not None and key_id == self._admin_key.key_id

    def _is_valid(self, verified: _VerifiedSecret) -> bool:
        """Return True, and record the use of the key, if the key is fresh and was not looked up again since."""
        if verified.key is None:
            return True
        key_id = verified.credential.subject
        if self._cache.get(key_id) is not verified.key or not self._is_fresh(verified.key):
            return False
        self._audit_writer.note_key_use(key_id)
        return True

    def _credential_of(self, key: ApiKey) -> Credential:
        if self._admin_key is not None and key.key_id == self._admin_key.key_id:
            if key.matches(self._admin_key.secret_hash):
                return _administrator(key)
            raise RejectedInput(Code.UNAUTHENTICATED, "the API key is not valid")
        stored = self._find(key)
        if stored is None or not key.matches_any(stored.secret_hashes):
            raise RejectedInput(Code.UNAUTHENTICATED, "the API key is not valid")
        self._audit_writer.note_key_use(key.key_id)
        return stored.credential

    def _needs_look_up(self, key: ApiKey) -> bool:
        if self._is_admin_key(key.key_id):
            return False
        cached = self._cache.get(key.key_id)
        if cached is None:
            return True
        return not (self._is_fresh(cached) and key.matches_any(cached.key.secret_hashes))

    def _is_fresh(self, cached: _CachedKey) -> bool:
        """Return True for half of CACHE_SECONDS, so that the key cannot expire between this check and `_find`."""
        return self._clock() - cached.looked_up <= CACHE_SECONDS / 2

    def _find(self, key: ApiKey) -> StoredKey | None:
        """Return the stored key of this id. Look it up again if the secret does not match, because it can be new."""
        found, cached, now = self._present(key.key_id), self._cache.get(key.key_id), self._clock()
        if (
            found is None
            or cached is None
            or key.matches_any(found.secret_hashes)
            or now - cached.rechecked < MIN_RECHECK_SECONDS
        ):
            return found
        return self._look_up(key.key_id, now, rechecked=now)

    def _present(self, key_id: str) -> StoredKey | None:
        """Return the key of this id as it is or was a moment ago, None without one."""
        cached, now = self._cache.get(key_id), self._clock()
        if cached is None:
            return None if self._unknown.has(key_id) else self._look_up(key_id, now, float("-inf"))
        return cached.key if now - cached.looked_up <= CACHE_SECONDS else self._look_up(key_id, now, cached.rechecked)

    def _look_up(self, key_id: str, now: float, rechecked: float) -> StoredKey | None:
        """Read a key. Raises TemporarilyUnavailable `overloaded` if too many look-ups found nothing."""
        if key_id not in self._cache:
            self._unknown.check(key_id)
        with translated_errors(), self._engine.begin() as connection:
            found = find_key(connection, key_id)
        if found is None:
            self._cache.pop(key_id, None)
            self._unknown.add(key_id)
            return None
        if len(self._cache) > MAX_CACHED_KEYS:
            self._cache.clear()
        self._cache[key_id] = _CachedKey(found, now, rechecked)
        return found

    def _read_ids(self) -> frozenset[str]:
        with translated_errors(), self._engine.begin() as connection:
            return list_key_ids(connection)


def _administrator(key: ApiKey) -> Credential:
    return Credential(key.key_id, (Grant(frozenset({Right.ADMIN}), (EVERY_TABLE,)),))
