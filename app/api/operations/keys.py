"""Creates, updates, rotates and deletes API keys, and finds their names. The audit records each operation."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from app.api.gateway import Gateway
from app.api.schemas.access import CreatedKeyModel, CreateKey, RotatedKeyModel, UpdateKey
from app.domain.access.rights import SALT_BYTES, Principal, RateLimits, format_key, hash_secret, signing_secret
from app.staging.access.api_keys import (
    StoredKey,
    change_limits,
    delete_key,
    insert_key,
    key_names,
    rename_key,
    rotate_key,
)
from app.staging.access.audit_events import record_operation
from app.staging.connection.database import Connection, translated_errors
from mirrorgate.errors import Code, RejectedInput

SETTINGS_KEY: Final = "MIRRORGATE_ADMIN_KEY"
"""The name of the key of the settings, which the database does not have."""


def caller_names(gateway: Gateway, connection: Connection, callers: Iterable[str | None]) -> Mapping[str, str]:
    """Return the names of those callers that are keys with a name, by id."""
    ids = {caller for caller in callers if caller is not None}
    own = gateway.authenticator.settings_key_id
    named = key_names(connection, ids)
    return {**named, own: SETTINGS_KEY} if own is not None and own in ids else named


def create(gateway: Gateway, principal: Principal, wanted: CreateKey) -> CreatedKeyModel:
    """Store a new key and return it with its secret. Raises RejectedInput `bad_request`."""
    expires_at = wanted.expires_at
    if expires_at is not None and not _is_future(expires_at):
        detail = "expires_at must be a time in the future with a UTC offset"
        raise RejectedInput.at(Code.BAD_REQUEST, detail, pointer="/expires_at")
    key_id, secret = secrets.token_hex(4), _new_secret()
    salt, signing = _signing(gateway, key_id) if wanted.hmac else (None, None)
    details = {
        "key": key_id,
        "rights": wanted.rights,
        "tables": wanted.tables,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
        **({"hmac": True} if wanted.hmac else {}),
        **wanted.model_dump(include={"name", "requests_per_second", "bytes_per_second"}, exclude_none=True),
    }
    limits = RateLimits(wanted.requests_per_second, wanted.bytes_per_second)
    with translated_errors(), gateway.engine.begin() as connection:
        hashed, rights, tables = hash_secret(secret), tuple(wanted.rights), tuple(wanted.tables)
        insert_key(connection, key_id, hashed, rights, tables, expires_at, limits, salt, wanted.name)
        record_operation(connection, principal.key_id, "create_key", details=details)
    return CreatedKeyModel(
        id=key_id,
        name=wanted.name,
        key=format_key(key_id, secret),
        signing_secret=signing,
        rights=wanted.rights,
        tables=wanted.tables,
        expires_at=expires_at,
    )


def update(gateway: Gateway, principal: Principal, key_id: str, wanted: UpdateKey) -> StoredKey:
    """Change what is given of a key; limits apply within five seconds. Raises RejectedInput `unknown_key`."""
    given = wanted.model_dump(exclude_unset=True)
    limits = {limit: value for limit, value in given.items() if limit != "name"}
    with translated_errors(), gateway.engine.begin() as connection:
        changed = change_limits(connection, key_id, limits)
        if "name" in given:
            changed = rename_key(connection, key_id, wanted.name)
        if changed is None:
            raise RejectedInput(Code.UNKNOWN_KEY, "no such key")
        record_operation(connection, principal.key_id, "update_key", details={"key": key_id, **given})
    return changed


def rotate(gateway: Gateway, principal: Principal, key_id: str, overlap_seconds: int) -> RotatedKeyModel:
    """Give a key a new secret and return it; the present one is valid during the overlap.

    Raises RejectedInput `unknown_key`, also for a key that has expired.
    """
    secret = _new_secret()
    with translated_errors(), gateway.engine.begin() as connection:
        rotated = rotate_key(connection, key_id, hash_secret(secret), overlap_seconds)
        if rotated is None:
            raise RejectedInput(Code.UNKNOWN_KEY, "no such key, or the key has expired")
        details = {"key": key_id, "overlap_seconds": overlap_seconds}
        record_operation(connection, principal.key_id, "rotate_key", details=details)
    return RotatedKeyModel(
        id=key_id,
        key=format_key(key_id, secret),
        rights=list(rotated.rights),
        tables=list(rotated.table_patterns),
        expires_at=rotated.expires_at,
        former_secret_until=rotated.former_secret_until,
    )


def delete(gateway: Gateway, principal: Principal, key_id: str) -> None:
    """Delete a key, which stops working within five seconds. Raises RejectedInput `unknown_key`."""
    with translated_errors(), gateway.engine.begin() as connection:
        if not delete_key(connection, key_id):
            raise RejectedInput(Code.UNKNOWN_KEY, "no such key")
        record_operation(connection, principal.key_id, "delete_key", details={"key": key_id})


def _new_secret() -> str:
    """Return a new random secret of a key."""
    return secrets.token_urlsafe(32)


def _signing(gateway: Gateway, key_id: str) -> tuple[bytes, str]:
    """Return the salt and the signing secret of a new key. Raises RejectedInput `bad_request` without a signing key."""
    signing_key = gateway.settings.signing_key
    if signing_key is None:
        detail = "the gateway has no MIRRORGATE_SIGNING_KEY, from which signing secrets are derived"
        raise RejectedInput.at(Code.BAD_REQUEST, detail, pointer="/hmac")
    salt = secrets.token_bytes(SALT_BYTES)
    return salt, signing_secret(signing_key.get_secret_value(), key_id, salt)


def _is_future(moment: datetime) -> bool:
    """Return True for a future time with an offset; False for one that UTC cannot express."""
    try:
        return moment.tzinfo is not None and moment.astimezone(UTC) > datetime.now(UTC)
    except OverflowError:
        return False
