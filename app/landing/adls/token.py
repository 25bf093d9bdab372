"""Access tokens for Azure storage, for clients that do not use Azure's SDK.

The credential is the chain of the landing zone: a service principal, a workload or managed identity, or `az login`.
"""

import threading
import time
from typing import Final, cast

from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import DefaultAzureCredential

from app.errors import Code, Misconfigured

_SCOPE: Final = "https://storage.azure.com/.default"
_RENEW_SECONDS: Final = 600.0
"""A token is renewed this long before it ends, so that a commit has time."""


class StorageTokens:
    """Gets tokens from a credential, and keeps each one: `az login` starts a process for every token."""

    def __init__(self, credential: TokenCredential | None = None) -> None:
        """Use the chain of Azure's SDK, unless a credential is given."""
        self._credential = credential
        self._lock = threading.Lock()
        self._token = AccessToken("", 0)

    def get(self) -> str:
        """Return a token that is valid for some minutes. Raise Misconfigured `bad_setting` without a credential."""
        with self._lock:
            if self._token.expires_on - time.time() < _RENEW_SECONDS:
                self._token = self._ask()
            return self._token.token

    def _ask(self) -> AccessToken:
        if self._credential is None:
            self._credential = cast("TokenCredential", DefaultAzureCredential())
        try:
            return self._credential.get_token(_SCOPE)
        except ClientAuthenticationError as error:
            reason = next(iter(str(error.message).splitlines()), "no credential")
            raise Misconfigured(
                Code.BAD_SETTING,
                f"no access token for Azure storage: {reason}",
                remedy="Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, use a managed identity or "
                "`az login`, or give deltalake's own options with --storage-option.",
            ) from error


_TOKENS: Final = StorageTokens()


def storage_token() -> str:
    """Return a token of this process's credential, as `StorageTokens.get`."""
    return _TOKENS.get()
