"""Make a client of Fabric's API from the settings."""

from typing import Final

from app.fabric.client import FabricClient
from app.fabric.items import names_in_address
from app.fabric.tokens import FabricTokens, TokenSource, require_azure
from app.fabric.transport import Clock, Transport
from app.settings import Settings

_PATIENCE_SECONDS: Final = 60.0


def configured_names(settings: Settings) -> tuple[str | None, str | None]:
    """Return workspace and mirrored database, each by id or name: as set, else as the landing zone's address says."""
    workspace, database = names_in_address(settings.landing_zone or "") or (None, None)
    return settings.fabric_workspace or workspace, settings.fabric_database or database


def is_configured(settings: Settings) -> bool:
    """Return whether the settings name a mirrored database."""
    return all(configured_names(settings))


def open_fabric(
    settings: Settings,
    *,
    patience: float = _PATIENCE_SECONDS,
    wait_seconds: float = 600.0,
    tokens: TokenSource | None = None,
    clock: Clock | None = None,
) -> FabricClient:
    """Return a client of the workspace and mirrored database that the settings name; use it as a context manager.

    Nothing is sent yet. `patience` bounds the repeats of one request, `wait_seconds` the wait for an operation, both in
    seconds. Raise Misconfigured `extra_missing`.
    """
    if tokens is None:
        require_azure()
        tokens = FabricTokens(settings.fabric_audience)
    workspace, database = configured_names(settings)
    transport = Transport(settings.fabric_api, tokens, patience=patience, clock=clock)
    return FabricClient(transport, workspace, database, wait_seconds=wait_seconds)
