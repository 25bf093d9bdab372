"""The location of the landing zone in the settings.

The command line and the drain share this reading of the settings. `app.landing` takes plain arguments, so that
executors and tests open a zone without an environment.
"""

from app.landing.adls.address import StorageOptions
from app.landing.open_zone import ZoneAddress
from app.settings import Settings


def zone_address(settings: Settings) -> ZoneAddress:
    """Return the address of the configured landing zone. Raise Misconfigured when none is set."""
    return ZoneAddress(settings.require_landing_zone(), storage_options(settings))


def storage_options(settings: Settings) -> StorageOptions:
    """Return how OneLake and ADLS Gen2 are reached."""
    return StorageOptions(endpoint=settings.storage_endpoint, api_version=settings.storage_api_version)
