"""Targets at Azure get the landing zone's credential as a token, unless options name another one.

No test runs against OneLake itself: these check the options and the first request.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from app.azure_tokens import AzureTokens
from app.mirror import target as object_store
from app.mirror.target import MirrorTarget, store_options
from mirrorgate.errors import Code, Misconfigured
from tests.support.http.stand_in import StandIn, serving

ONELAKE = "abfss://workspace@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Tables"


class Credential:
    """Gives numbered tokens, each valid for some seconds; 0: no token."""

    def __init__(self, seconds: int) -> None:
        self.seconds, self.given = seconds, 0

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        if not self.seconds:
            raise ClientAuthenticationError("no identity answers\nand more")
        self.given += 1
        return AccessToken(f"token-{self.given}", int(time.time()) + self.seconds)


def tokens_of(credential: Credential) -> AzureTokens:
    return replace(object_store.STORAGE_TOKENS, make=lambda: credential)


@pytest.fixture(autouse=True)
def _no_credential_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "STORAGE_TOKENS", tokens_of(Credential(3_600)))


@contextmanager
def blob_service() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Answer that nothing is there, and keep the path and the authorization of each request."""
    seen: list[tuple[str, str | None]] = []

    class Handler(StandIn):
        def respond(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            self.answer(401, b"")

    with serving(Handler) as address:
        yield address, seen


def test_a_target_at_onelake_signs_in_with_the_credential_of_the_landing_zone() -> None:
    with blob_service() as (endpoint, seen):
        target = MirrorTarget(ONELAKE, {"azure_storage_endpoint": endpoint, "allow_http": "true", "timeout": "20s"})
        with pytest.raises(OSError, match="401"):
            target.open("sales.orders")
    path, authorization = seen[0]
    assert path.startswith("/workspace/lake.Lakehouse/Tables/sales/orders/_delta_log")
    assert authorization == "Bearer token-1"


@pytest.mark.parametrize(
    "name",
    ["account_key", "azure_storage_sas_token", "AZURE_CLIENT_SECRET", "azure_use_azure_cli", "bearer_token", "token"],
)
def test_options_that_name_a_credential_are_left_as_they_are(name: str) -> None:
    assert store_options(ONELAKE, {name: "x"}) == {"retry_timeout": "30s", name: "x"}


def test_other_stores_get_no_token() -> None:
    assert store_options("s3://bucket/x", {}) == {"retry_timeout": "30s"}
    assert store_options("/data/mirror", {}) is None


@pytest.mark.parametrize(("seconds", "second"), [(3_600, "token-1"), (300, "token-2")])
def test_a_token_is_kept_until_shortly_before_it_ends(seconds: int, second: str) -> None:
    tokens = tokens_of(Credential(seconds))
    assert tokens.get() == "token-1"
    assert tokens.get() == second


def test_a_machine_without_a_credential_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "STORAGE_TOKENS", tokens_of(Credential(0)))
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as missing:
        MirrorTarget(ONELAKE).open("orders")
    assert missing.value.detail == "no access token for Azure storage: no identity answers"
    assert "az login" in missing.value.remedy
