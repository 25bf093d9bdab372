"""Access tokens of Azure's SDK for calls that the SDK does not make: to Fabric's API, and by deltalake to storage.

The credential is the chain of the landing zone: a service principal, a workload or managed identity, or `az login`. The
extras that need it install the SDK, so it is imported with the first token.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from app.observability.repeated_lines import errors_only
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

_RENEW_SECONDS: Final = 600.0
"""A token is renewed this long before it ends, so that what begins with it has time."""


def _chain() -> "TokenCredential":
    from azure.identity import DefaultAzureCredential

    return cast("TokenCredential", DefaultAzureCredential())


@dataclass
class AzureTokens:
    """Tokens for one audience. Keeps each one, because `az login` starts a process for every token. Thread-safe."""

    scope: str
    purpose: str
    """Purpose of the tokens, for the error about a missing credential."""
    missing: Code
    """The error code without a credential."""
    away: Code
    """The error code while the authority does not answer."""
    remedy: str
    make: "Callable[[], TokenCredential]" = _chain
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _credential: "TokenCredential | None" = field(default=None, init=False)
    _token: "AccessToken | None" = field(default=None, init=False)

    def get(self, *, renewed: bool = False) -> str:
        """Return a token that is valid for some minutes; with `renewed` one that is not the last one.

        The SDK keeps a token until it ends, so one that was rejected is asked for with a new credential. Raises
        Misconfigured without a credential, and TemporarilyUnavailable while the authority does not answer.
        """
        with self._lock:
            if renewed:
                self._credential = self._token = None
            if self._token is None or self._token.expires_on - time.time() < _RENEW_SECONDS:
                self._token = self._ask()
            return self._token.token

    def _ask(self) -> "AccessToken":
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        if self._credential is None:
            self._credential = self.make()
        try:
            with errors_only("azure.identity"):
                return self._credential.get_token(self.scope)
        except ClientAuthenticationError as error:
            reason = next(iter(str(error.message).splitlines()), "no credential")
            detail = f"no access token for {self.purpose}: {reason}"
            raise Misconfigured(self.missing, detail, remedy=self.remedy) from error
        except AzureError as error:
            reason = next(iter(str(error).splitlines()), "no answer")
            detail = f"the authority that issues tokens does not answer: {reason}"
            raise TemporarilyUnavailable(self.away, detail) from error
