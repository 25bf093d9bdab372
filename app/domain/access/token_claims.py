"""Reads the claims of a verified token: its holder, and what its roles and scopes grant."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.domain.access.rights import Credential, Grant
from app.errors import Code, RejectedInput

SUBJECT_PREFIX: Final = "oidc:"
"""No key id starts with it: ids of keys are hexadecimal."""

_SUBJECT: Final = re.compile(r"[\x21-\x7e]{1,200}")
_SUBJECT_CLAIMS: Final = ("sub", "azp", "appid", "client_id")
_ROLE_CLAIMS: Final = ("roles", "scp", "scope")


def credential_of(claims: Mapping[str, Any], granted_by: Mapping[str, Grant]) -> Credential:
    """Return the holder with the grants of each role or scope that `granted_by` knows; others grant nothing.

    Raises RejectedInput `unauthenticated` for a token without a subject.
    """
    names = dict.fromkeys(_names(claims))
    return Credential(subject_of(claims), tuple(granted_by[name] for name in names if name in granted_by))


def subject_of(claims: Mapping[str, Any]) -> str:
    """Return `oidc:` and the subject, or the application if there is none: the same for all tokens of the holder."""
    for claim in _SUBJECT_CLAIMS:
        value = claims.get(claim)
        if value is None:
            continue
        if isinstance(value, str) and _SUBJECT.fullmatch(value):
            return SUBJECT_PREFIX + value
        raise RejectedInput(
            Code.UNAUTHENTICATED, f"the token's claim {claim} must be 1 to 200 visible ASCII characters"
        )
    raise RejectedInput(Code.UNAUTHENTICATED, "the token names no subject and no application")


def _names(claims: Mapping[str, Any]) -> Iterator[str]:
    """Yield the roles and scopes, given as a list or as a text separated by spaces."""
    for claim in _ROLE_CLAIMS:
        value = claims.get(claim)
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, list):
            yield from (name for name in value if isinstance(name, str))
