"""The options with which deltalake reaches a target."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

_AZURE: Final = ("abfss://", "abfs://", "az://", "azure://", "adl://")
_AZURE_CREDENTIALS: Final = (
    "_key",
    "sas",
    "token",
    "token_file",
    "client_secret",
    "msi_endpoint",
    "identity_endpoint",
    "msi_resource_id",
    "use_azure_cli",
    "skip_signature",
)
"""Ends of the option names that tell deltalake how to sign in at Azure."""
_WAITING: Final = {"retry_timeout": "30s"}
"""deltalake tries for 180 seconds, in which a table neither advances nor says why. The mirror tries again by itself."""


def store_options(location: str, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options for one opening of a Delta table; None for a local folder without options.

    At Azure, options that name no credential are completed by a token of the credential that the landing zone uses. A
    token is valid for about an hour, so options must not be kept.

    Raise Misconfigured `bad_setting` if there is no credential.
    """
    if "://" not in location or location.startswith("file:"):
        return dict(given) or None
    options = _WAITING | dict(given)
    if location.startswith(_AZURE) and not _names_credential(given) and find_spec("azure.identity") is not None:
        from app.landing.adls.token import storage_token

        options["bearer_token"] = storage_token()
    return options


def _names_credential(given: Mapping[str, str]) -> bool:
    storage = [name for name in os.environ if name.upper().startswith("AZURE_STORAGE_")]
    return any(name.lower().endswith(_AZURE_CREDENTIALS) for name in (*given, *storage))
