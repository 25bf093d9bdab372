"""A certified OpenID provider: people sign in, programs show its tokens, it gets new keys, and it is away."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from playwright.sync_api import Browser
from pydantic import SecretStr

from app.api import application
from app.api.auth import oidc as issuer_keys
from app.api.auth.oidc import CodeFlow
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.conftest import api_database
from tests.api.console.browser.conftest import chromium
from tests.api.console.browser.visitor import visiting
from tests.real.counterparts import IDENTITY, identity_provider, npm_version
from tests.real.report import Report
from tests.support.http.server import free_port, served
from tests.support.processes import start_program
from tests.support.waiting import wait_until

__all__ = ["api_database", "chromium"]

COUNTERPART: Final = f"oidc-provider {npm_version('oidc-provider', IDENTITY[0])}"
TABLE: Final = "sales.orders"
AUDIENCE: Final = "api://mirrorgate"
SECRET: Final = "s/e:c r%t+"
RIGHTS: Final = {
    "Changes.Send": {"rights": ["ingest"], "tables": ["*"]},
    "operator": {"rights": ["admin"], "tables": ["*"]},
}


def signing_keys() -> dict[str, dict[str, Any]]:
    """Return private keys by their ids."""
    made: dict[str, dict[str, Any]] = {
        "two": ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True),
        "three": OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate(), as_dict=True),
    }
    for name in ("one", "four", "five"):
        made[name] = RSAAlgorithm.to_jwk(rsa.generate_private_key(public_exponent=65537, key_size=2048), as_dict=True)
    return {name: {"kid": name, "use": "sig"} | key for name, key in made.items()}


@dataclass
class Provider:
    """oidc-provider in its process, at another site than the gateway for a browser."""

    folder: Path
    gateway: str
    issuer: str = field(default_factory=lambda: f"http://localhost:{free_port()}")
    keys: dict[str, dict[str, Any]] = field(default_factory=signing_keys)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, *keys: str, **settings: Any) -> None:
        """Start, or start again: the first key signs. Tokens, codes and sessions of before are forgotten."""
        self.stop()
        given = {"algorithm": "RS256", "seconds": 300, "ahead": 0, "notBefore": True} | settings
        given |= {"issuer": self.issuer, "clients": self.clients(), "roles": {"ann": ["operator"]}}
        given |= {"keys": [self.keys[key] for key in keys or ("one", "two", "three")]}
        (self.folder / "provider.json").write_text(json.dumps(given))
        command = ["node", identity_provider(), self.folder / "provider.json"]
        self.process = start_program(self.folder / "provider.log", *command, ready=self.answers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.issuer}/.well-known/openid-configuration", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def clients(self) -> list[dict[str, Any]]:
        """Return the registrations: of a sender, and of consoles that prove themselves in different ways."""
        sender = {"client_id": "sender", "client_secret": SECRET, "grant_types": ["client_credentials"]}
        consoles = [
            {
                "client_id": method,
                "token_endpoint_auth_method": method,
                "redirect_uris": [f"{self.gateway}/console/oidc/callback"],
                "id_token_signed_response_alg": "RS256" if method == "none" else "ES256",
            }
            | ({} if method == "none" else {"client_secret": SECRET})
            for method in ("client_secret_basic", "client_secret_post", "none")
        ]
        return [sender | {"redirect_uris": [], "response_types": []}, *consoles]

    def token(self, resource: str = AUDIENCE, scope: str = "Changes.Send") -> str:
        """Return an access token of the sender."""
        answer = httpx.post(
            f"{self.issuer}/token",
            data={"grant_type": "client_credentials", "scope": scope, "resource": resource},
            auth=(quote(self.clients()[0]["client_id"], safe=""), quote(SECRET, safe="")),
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    made = Provider(tmp_path_factory.mktemp("identity"), f"http://127.0.0.1:{free_port()}")
    yield made
    made.stop()


@contextmanager
def gateway_of(
    provider: Provider, database_url: str, client_id: str = "client_secret_basic", *, port: int = 0
) -> Iterator[str]:
    """Run a gateway with one of the registrations."""
    settings = {
        "database_url": SecretStr(database_url),
        "admin_key": SecretStr(ADMIN_KEY),
        "oidc_issuer": provider.issuer,
        "oidc_audience": AUDIENCE,
        "oidc_rights": RIGHTS,
        "oidc_client_id": client_id,
        "oidc_client_secret": None if client_id == "none" else SECRET,
        "oidc_redirect_url": f"{provider.gateway}/console/oidc/callback",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "configure_logging", lambda _: None)
        with served(Settings.model_validate(settings), port=port) as address:
            yield address


@pytest.fixture(scope="module")
def address(provider: Provider, api_database: str) -> Iterator[str]:
    provider.start()
    with gateway_of(provider, api_database) as address, Gateway.at(address, ADMIN_KEY) as admin:
        admin.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
        yield address


def send(address: str, token: str) -> httpx.Response:
    with Gateway.at(address, token) as client:
        return client.arcion(insert(TABLE, id="1"))


TOKENS: dict[str, tuple[int, str, dict[str, Any], dict[str, str]]] = {
    "RSA": (202, "", {}, {}),
    "an elliptic curve": (202, "", {"algorithm": "ES256"}, {}),
    "RSA-PSS": (401, "is not signed with", {"algorithm": "PS256"}, {}),
    "Edwards curve": (401, "is not signed with", {"algorithm": "Ed25519"}, {}),
    "another audience": (401, "for another audience", {}, {"resource": "api://other"}),
    "no JWT": (401, "", {}, {"resource": "opaque:api"}),
    "no scope": (403, "lacks", {}, {"scope": ""}),
    "a clock that is a little ahead": (202, "", {"ahead": 20}, {}),
    "a clock that is far ahead": (401, "is not valid yet", {"ahead": 50}, {}),
    "a clock that is far ahead, without nbf": (202, "", {"ahead": 50, "notBefore": False}, {}),
    "a clock that is a little behind": (202, "", {"ahead": -30, "seconds": 10}, {}),
    "a clock that is far behind": (401, "has expired", {"ahead": -60, "seconds": 10}, {}),
}


@pytest.mark.parametrize("case", TOKENS)
def test_access_tokens_of_programs_are_verified(provider: Provider, address: str, report: Report, case: str) -> None:
    status, why, settings, asked = TOKENS[case]
    provider.start(**settings)
    answer = send(address, provider.token(**asked))
    assert (answer.status_code, why in answer.text) == (status, True), answer.text
    report.add(COUNTERPART, 1)


Meanwhile = Callable[[Provider], None]

SIGN_INS: dict[str, tuple[str, str, str, str, Meanwhile | None]] = {
    "a secret in the header": ("client_secret_basic", "ann", "Continue", "oidc:ann", None),
    "a secret in the form": ("client_secret_post", "ann", "Continue", "oidc:ann", None),
    "a public client": ("none", "ann", "Continue", "oidc:ann", None),
    "no consent": ("none", "ann", "[ Cancel ]", "access_denied", None),
    "no role": ("none", "bob", "Continue", "none of the roles of oidc:bob", None),
    "a provider that was restarted": ("none", "ann", "Continue", "invalid_grant", Provider.start),
    "a provider that is away": ("none", "ann", "Continue", "issuer_unavailable", Provider.stop),
}
"""What a person presses in the end, what the console then shows, and what happens to the provider before the gateway
exchanges the code."""


def after(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
    def both(*arguments: Any) -> Any:
        first()
        return then(*arguments)

    return both


@pytest.mark.parametrize("case", SIGN_INS)
def test_people_sign_in_to_the_console(
    chromium: Browser,
    provider: Provider,
    api_database: str,
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    client_id, person, act, shown, meanwhile = SIGN_INS[case]
    provider.start()
    port = int(provider.gateway.rpartition(":")[2])
    with gateway_of(provider, api_database, client_id, port=port) as address, visiting(chromium, address) as visitor:
        page = visitor.page
        page.route("https://fonts.googleapis.com/**", lambda route: route.abort())
        visitor.open("/console/audit")
        page.get_by_role("button", name="Sign in with your organization").click()
        page.get_by_placeholder("Enter any login").fill(person)
        page.get_by_placeholder("and password").fill("any")
        page.get_by_role("button", name="Sign-in").click()
        if meanwhile is not None:
            monkeypatch.setattr(CodeFlow, "holder", after(partial(meanwhile, provider), CodeFlow.holder))
        page.get_by_text(act, exact=True).click()
        page.get_by_text(shown).first.wait_for()
        assert page.url.startswith(f"{address}/console/")
        assert visitor.complaints == [], f"the console's, besides a font of the provider's pages: {page.url}"
    report.add(COUNTERPART, 1)


def statuses(address: str, token: str) -> list[int]:
    """Return the statuses of requests with a token, until one is not 503."""
    seen: list[int] = []

    def is_final() -> bool:
        seen.append(send(address, token).status_code)
        return seen[-1] != 503

    wait_until(is_final, within=60, what="an answer other than 503")
    return seen


def test_keys_are_rotated_while_the_gateway_runs(
    provider: Provider, address: str, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "RETRY_SECONDS", 3.0)
    provider.start("one")
    old = provider.token()
    assert statuses(address, old)[-1] == 202
    for keys, end_of_old in ((("four", "one"), 202), (("five", "four"), 401)):
        provider.start(*keys)
        new = provider.token()
        assert statuses(address, new)[-1] == 202
        assert statuses(address, old)[-1] == end_of_old
        assert statuses(address, new) == [202]
        report.add(COUNTERPART, 3)


def test_tokens_are_accepted_while_the_provider_is_away_and_after_it_returns(
    provider: Provider, api_database: str, address: str, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "RETRY_SECONDS", 3.0)
    provider.start()
    token = provider.token()
    provider.stop()
    with gateway_of(provider, api_database) as started_meanwhile:
        problem(send(started_meanwhile, token), 503, "issuer_unavailable")
        provider.start("one")
        assert statuses(started_meanwhile, token)[-1] == 202
        provider.start("four")
        other = provider.token()
        provider.stop()
        problem(send(started_meanwhile, other), 503, "issuer_unavailable")
        assert send(started_meanwhile, token).status_code == 202
        provider.start("four")
        assert statuses(started_meanwhile, other)[-1] == 202
    report.add(COUNTERPART, 5)
