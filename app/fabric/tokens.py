"""Access tokens for Fabric's API, from the chain of Azure's SDK that the landing zone uses too.

The audience is Fabric's API, not storage. A token that the API rejects is asked for again with a new credential,
because the SDK keeps a token until it ends.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.extras import is_installed
from app.observability.quiet_logger import errors_only

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

_RENEW_SECONDS: Final = 300.0
"""A token is renewed this long before it ends."""


class TokenSource(Protocol):
    """Gives tokens for one audience."""

    def get(self, *, renewed: bool = False) -> str:
        """Return a valid token; with `renewed` one that is not the last one. Raise Misconfigured."""


class FabricTokens:
    """Tokens of a credential of Azure's SDK. Threads may share it."""

    def __init__(self, audience: str, credential: "Callable[[], TokenCredential] | None" = None) -> None:
        """Use the SDK's chain of credentials, unless a function that makes one is given."""
        self._scope = f"{audience.rstrip('/')}/.default"
        self._make = credential or _default_credential
        self._lock = threading.Lock()
        self._credential: TokenCredential | None = None
        self._token: AccessToken | None = None

    def get(self, *, renewed: bool = False) -> str:
        """Return a token that is valid for some minutes. Raise Misconfigured `fabric_unauthorized` without one."""
        with self._lock:
            if renewed:
                self._credential = self._token = None
            if self._token is None or self._token.expires_on - time.time() < _RENEW_SECONDS:
                self._token = self._ask()
            return self._token.token

    def _ask(self) -> "AccessToken":
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        if self._credential is None:
            self._credential = self._make()
        try:
            with errors_only("azure.identity"):
                return self._credential.get_token(self._scope)
        except ClientAuthenticationError as error:
            reason = next(iter(str(error.message).splitlines()), "no credential")
            raise Misconfigured(
                Code.FABRIC_UNAUTHORIZED,
                f"no access token for {self._scope}: {reason}",
                remedy="Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service principal that has a "
                "role in the workspace, use a managed identity, or log in with `az login`. In a national cloud also "
                "set AZURE_AUTHORITY_HOST and MIRRORGATE_FABRIC_AUDIENCE.",
            ) from error
        except AzureError as error:
            reason = next(iter(str(error).splitlines()), "no answer")
            raise TemporarilyUnavailable(
                Code.FABRIC_UNAVAILABLE, f"the authority that issues tokens does not answer: {reason}"
            ) from error


def require_azure() -> None:
    """Raise Misconfigured `extra_missing` without Azure's package for credentials."""
    if not is_installed("azure.identity"):
        raise Misconfigured(
            Code.EXTRA_MISSING,
            "Fabric's API needs a package that is not installed: azure-identity",
            remedy="Install the extra `mirrorgate[onelake]`.",
        )


def _default_credential() -> "TokenCredential":
    from azure.identity import DefaultAzureCredential

    return cast("TokenCredential", DefaultAzureCredential())
