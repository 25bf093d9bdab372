"""An OpenID Connect issuer on this machine, with keys that change and documents that may be wrong."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.support.http.stand_in import StandIn, serving

AUDIENCE: Final = "api://mirrorgate"
DISCOVERY: Final = "/tenant/.well-known/openid-configuration"
KEYS: Final = "/tenant/keys"


class Issuer:
    """Publishes `keys` and signs tokens with them; counts what it is asked for."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/tenant"
        self.discovery: Any = {"issuer": self.url, "jwks_uri": f"{address}{KEYS}"}
        self.keys: list[dict[str, Any]] = []
        self.answers_with = 200
        self.asked: Counter[str] = Counter()
        self._private: dict[str, tuple[str, Any]] = {}

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


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Yield an issuer that answers while the block runs."""

    class Handler(StandIn):
        protocol_version = "HTTP/1.0"

        def respond(self) -> None:
            issuer.asked[self.path] += 1
            content = {DISCOVERY: issuer.discovery, KEYS: {"keys": issuer.keys}}.get(self.path)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.answer(issuer.answers_with if content is not None else 404, body)

    with serving(Handler) as address:
        issuer = Issuer(address)
        yield issuer
