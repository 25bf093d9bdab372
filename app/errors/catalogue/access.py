"""Errors about the caller: who it is, what it may do, and how much it may send."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import RETRY, Entry
from app.errors.codes import Code, Kind

ACCESS: Final[Mapping[Code, Entry]] = {
    Code.UNAUTHENTICATED: Entry(
        Kind.UNAUTHENTICATED,
        "The request has no valid API key or access token.",
        "Send `Authorization: Bearer mg_<id>_<secret>` with a key that is neither expired nor revoked, or a valid "
        "access token if the gateway accepts tokens.",
    ),
    Code.BAD_SIGNATURE: Entry(
        Kind.UNAUTHENTICATED,
        "The body of a signed request does not have the signature of its key.",
        "Sign the bytes of the body exactly as they are sent, with HMAC-SHA256 and the signing secret of the key. "
        "docs/webhooks.md has the recipe.",
    ),
    Code.FORBIDDEN: Entry(
        Kind.FORBIDDEN,
        "The key lacks a right that this call needs.",
        "Use a key with the right that the detail names, or ask an administrator for one.",
    ),
    Code.UNKNOWN_KEY: Entry(Kind.MISSING, "No API key has this id.", "List the keys with GET /v1/keys."),
    Code.RATE_LIMITED: Entry(
        Kind.TOO_MUCH,
        "The key exceeded its rate limit in requests or bytes. Nothing was staged.",
        f"{RETRY} An administrator can raise the limit with `PATCH /v1/keys/{{key_id}}`.",
    ),
    Code.ISSUER_UNAVAILABLE: Entry(
        Kind.UNAVAILABLE,
        "The gateway cannot fetch the OpenID Connect issuer's keys, which it needs to verify the token.",
        f"{RETRY} If the error persists, ask the operator to look for `issuer_keys_read_failed` in the log.",
    ),
}
