"""Signing in to the console: sessions, tries to sign in at an identity provider, and the claims of its tokens.

A session has one random secret, its token. The database keeps the token's hash; the token for forms and the binding to
the key that signed in are computed from the token, so they need no storage and cannot be computed from the database.

A try to sign in at a provider has a secret in the browser's cookie, too. State, nonce and code verifier are computed
from it, so that any API process can answer the provider's redirect without storage, and only for the browser that
began. OAuth 2.0 (RFC 6749), PKCE (RFC 7636) and OpenID Connect name them.

The claims of a verified token name its holder, and what its roles and scopes grant.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.access.rights import Credential, Grant
from mirrorgate.errors import Code, RejectedInput

TOKEN_BYTES: Final = 32
MAX_SESSION_SECONDS: Final = 12 * 3600
"""Seconds that a session lasts at most, even if it is used."""

MAX_IDLE_SECONDS: Final = 3600
"""Seconds that a session lasts without use. An open page refreshes itself, which counts as use."""

MAX_SESSIONS_OF_SUBJECT: Final = 50
"""Sessions of one key or person; the oldest end when there are more."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_START: Final = "/console"


@dataclass(frozen=True, slots=True)
class SessionToken:
    """The secret of one session. It never appears in `repr`."""

    text: str = field(repr=False)

    @classmethod
    def of(cls, random: bytes) -> "SessionToken":
        """Return the token of TOKEN_BYTES random bytes."""
        return cls(urlsafe_b64encode(random).rstrip(b"=").decode())

    @classmethod
    def parse(cls, text: str | None) -> "SessionToken | None":
        """Return the token in a cookie, None for anything else."""
        return cls(text) if text is not None and _TOKEN.fullmatch(text) else None

    @property
    def hash(self) -> bytes:
        """Return what the database stores of the token."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def csrf(self) -> str:
        """Return the token that each form of the session carries."""
        return hmac.new(self.text.encode(), b"csrf", "sha256").hexdigest()

    def is_csrf(self, given: str) -> bool:
        """Return True if a form carries the token of this session, in constant time."""
        return hmac.compare_digest(self.csrf.encode(), given.encode())

    def proof(self, secret_hash: bytes) -> bytes:
        """Return what binds the session to the secret that signed in."""
        return hmac.new(self.text.encode(), secret_hash, "sha256").digest()

    def is_bound_to(self, proof: bytes, secret_hashes: Iterable[bytes]) -> bool:
        """Return True if one of a key's present secrets is the one that signed in."""
        return any(hmac.compare_digest(proof, self.proof(secret_hash)) for secret_hash in secret_hashes)


def safe_next(text: str | None) -> str:
    """Return where to go after signing in: a path of the console, or its start page for anything else.

    Another address would let a link to the sign-in page send the browser to another site.
    """
    given = text or ""
    inside = given == _START or given.startswith((f"{_START}/", f"{_START}?"))
    plain = given.isascii() and given.isprintable() and not set(given) & set(' \\"<>')
    return given if inside and plain and "//" not in given.partition("?")[0] and ".." not in given else _START


ATTEMPT_SECONDS: Final = 600
"""Seconds that a person can take to sign in at the provider."""

MAX_NEXT_CHARACTERS: Final = 1000
"""Characters of the page to go to afterwards; a longer one is the start page. Browsers bound cookies to 4 kB."""

_COOKIE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{0,2000})")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """The secret of one try, and the page to go to afterwards. The secret never appears in `repr`."""

    secret: str = field(repr=False)
    next: str

    @classmethod
    def of(cls, random: bytes, next_page: str) -> "SignInAttempt":
        """Return the attempt of 32 random bytes."""
        return cls(_text(random), safe_next(next_page if len(next_page) <= MAX_NEXT_CHARACTERS else None))

    @classmethod
    def parse(cls, cookie: str | None) -> "SignInAttempt | None":
        """Return the attempt in a cookie, None for anything else."""
        found = _COOKIE.fullmatch(cookie or "")
        if found is None:
            return None
        try:
            next_page = urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4)).decode()
        except (Error, UnicodeDecodeError):
            return None
        return cls(found[1], safe_next(next_page))

    @property
    def cookie(self) -> str:
        """Return what the browser keeps until the provider sends it back."""
        return f"{self.secret}.{_text(self.next.encode())}"

    @property
    def state(self) -> str:
        """Return what the provider's redirect must carry: another browser's redirect has another one."""
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        """Return what the token must carry: the token of another sign-in has another one."""
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        """Return what exchanges the code, together with it."""
        return self._derived(b"verifier")

    @property
    def challenge(self) -> str:
        """Return the hash of the verifier, which the provider gets first."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def is_state(self, given: str) -> bool:
        """Return True if a redirect answers this attempt, in constant time."""
        return hmac.compare_digest(self.state.encode(), given.encode())

    def is_nonce(self, claim: object) -> bool:
        """Return True if a token was made for this attempt, in constant time."""
        return isinstance(claim, str) and hmac.compare_digest(self.nonce.encode(), claim.encode())

    def _derived(self, purpose: bytes) -> str:
        return _text(hmac.new(self.secret.encode(), purpose, "sha256").digest())


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


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
    """Yield the roles and scopes, given as a list or as a string separated by spaces."""
    for claim in _ROLE_CLAIMS:
        value = claims.get(claim)
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, list):
            yield from (name for name in value if isinstance(name, str))
