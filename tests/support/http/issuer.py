"""An OpenID Connect issuer on this machine, with keys that change, documents that may be wrong, and people."""

import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.support.http.stand_in import StandIn, serving

AUDIENCE: Final = "api://mirrorgate"
DISCOVERY: Final = "/tenant/.well-known/openid-configuration"
KEYS: Final = "/tenant/keys"
AUTHORIZE: Final = "/tenant/authorize"
TOKEN: Final = "/tenant/token"
CLIENT_ID: Final = "console"
CLIENT_SECRET: Final = "s/e:c r%t"


class Issuer:
    """Publishes `keys` and signs tokens with them; counts what it is asked for."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/tenant"
        self.discovery: Any = {
            "issuer": self.url,
            "jwks_uri": f"{address}{KEYS}",
            "authorization_endpoint": f"{address}{AUTHORIZE}?policy=x",
            "token_endpoint": f"{address}{TOKEN}",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        }
        self.keys: list[dict[str, Any]] = []
        self.answers_with = 200
        self.asked: Counter[str] = Counter()
        self.client_secret: str | None = CLIENT_SECRET
        """The secret that the token endpoint requires; None for a public client."""
        self.client_method = "client_secret_basic"
        """Where the registration of the client says that its secret is; anywhere else is rejected."""
        self.gateway: str | None = None
        """Where a browser is sent back to, with the roles of `operator`; None if no browser comes."""
        self.tokens: list[str] = []
        """The ID tokens that were given out."""
        self._private: dict[str, tuple[str, Any]] = {}
        self._codes: dict[str, tuple[dict[str, str], str]] = {}

    def new_key(self, key_id: str, algorithm: str = "ES256", *, publish: bool = True, **members: Any) -> None:
        if algorithm.startswith("RS"):
            private: Any = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        else:
            private = ec.generate_private_key(ec.SECP384R1() if algorithm == "ES384" else ec.SECP256R1())
            public = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
        self._private[key_id] = (algorithm, private)
        if publish:
            self.keys.append({**public, "kid": key_id, "use": "sig", **members})

    def token(self, key_id: str, roles: list[str], *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is valid for five minutes; a claim or header given as None is left out."""
        algorithm, private = self._private[key_id]
        content = {"iss": self.url, "aud": AUDIENCE, "exp": int(time.time()) + 300, "sub": "app-1", "roles": roles}
        wanted = {name: value for name, value in (content | claims).items() if value is not None}
        named = {name: value for name, value in ({"kid": key_id} | (headers or {})).items() if value is not None}
        return jwt.encode(wanted, private, algorithm, headers=named)

    def sign_in(self, address: str, roles: list[str], *, key_id: str = "one", **claims: Any) -> str:
        """Sign a person in at an authorization address; return the path and query of the redirect back."""
        parts = urlsplit(address)
        asked = {name: value for name, [value] in parse_qs(parts.query).items()}
        assert address.startswith(self.discovery["authorization_endpoint"] + "&")
        assert (asked["response_type"], asked["client_id"], asked["scope"]) == ("code", CLIENT_ID, "openid")
        assert asked["code_challenge_method"] == "S256"
        person = {"aud": CLIENT_ID, "sub": "ann", "nonce": asked["nonce"]}
        code = f"code-{len(self._codes)}-{hashlib.sha256(asked['state'].encode()).hexdigest()}"
        self._codes[code] = (asked, self.token(key_id, roles, **(person | claims)))
        back = urlsplit(asked["redirect_uri"])
        return (
            f"{back.path}?{urlencode({'code': code, 'state': asked['state'], 'session_state': 'x', 'iss': self.url})}"
        )

    def redeem(self, body: bytes, authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Answer the token endpoint: the client, the code, the redirect address and the verifier must be right."""
        sent = {name: value for name, [value] in parse_qs(body.decode()).items()}
        if not self._is_client(sent, authorization):
            return 401, {"error": "invalid_client", "error_description": "<b>secret</b>"}
        asked, token = self._codes.pop(sent.get("code", ""), ({}, ""))
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        expected = (challenge, sent["redirect_uri"], "authorization_code")
        if (asked.get("code_challenge"), asked.get("redirect_uri"), sent["grant_type"]) != expected:
            return 400, {"error": "invalid_grant"}
        self.tokens.append(token)
        return 200, {"token_type": "Bearer", "access_token": "opaque", "id_token": token}

    def _is_client(self, sent: dict[str, str], authorization: str | None) -> bool:
        if self.client_secret is None:
            return authorization is None and "client_secret" not in sent
        if self.client_method == "client_secret_post":
            return authorization is None and sent.get("client_secret") == self.client_secret
        scheme, _, pair = (authorization or "").partition(" ")
        known = [unquote(part) for part in base64.b64decode(pair).decode().split(":")]
        return (scheme, known) == ("Basic", [CLIENT_ID, self.client_secret])


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Yield an issuer with the key `one` that answers while the block runs."""

    class Handler(StandIn):
        protocol_version = "HTTP/1.0"

        def respond(self) -> None:
            issuer.asked[self.path] += 1
            if self.path == TOKEN and issuer.answers_with == 200:
                status, answer = issuer.redeem(self.body(), self.headers["Authorization"])
                self.answer(status, json.dumps(answer).encode())
                return
            if self.path.startswith(AUTHORIZE) and issuer.gateway is not None:
                back = issuer.sign_in(f"http://{self.headers['Host']}{self.path}", ["operator"])
                self.answer(302, b"", Location=issuer.gateway + back)
                return
            content = {DISCOVERY: issuer.discovery, KEYS: {"keys": issuer.keys}, TOKEN: {}}.get(self.path)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.answer(issuer.answers_with if content is not None else 404, body)

    with serving(Handler) as address:
        issuer = Issuer(address)
        issuer.new_key("one")
        yield issuer
