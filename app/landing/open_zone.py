"""The store of a landing zone, chosen by its address: a local folder, or OneLake and ADLS Gen2."""

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.retries import Retries
from app.landing.local_zone import LocalZone
from app.landing.zone import LandingZone
from mirrorgate.errors import Code, Misconfigured


@dataclass(frozen=True, slots=True)
class ZoneAddress:
    """The location of a landing zone: a folder, or an address of OneLake or ADLS Gen2. It pickles, for executors."""

    location: str
    options: StorageOptions = field(default_factory=StorageOptions)

    @property
    def is_remote(self) -> bool:
        """True if the zone is in OneLake or ADLS Gen2."""
        return "://" in self.location

    def check(self) -> None:
        """Raise Misconfigured for an invalid address, or one whose packages are not installed."""
        if self.is_remote:
            StorageAddress.parse(self.location)
            _require_packages()

    def check_credential(self) -> None:
        """Raise Misconfigured for a remote address without a credential on this machine."""
        if self.is_remote:
            from app.landing.adls.client import require_credential

            require_credential(self.options)


def open_zone(address: ZoneAddress) -> LandingZone:
    """Open the landing zone at an address; a remote one is opened once per process and shared by its threads.

    Create nothing. Raise Misconfigured.
    """
    if address.is_remote:
        return open_remote(StorageAddress.parse(address.location), address.options)
    return LocalZone(Path(address.location))


@lru_cache(maxsize=4)
def open_remote(address: StorageAddress, options: StorageOptions) -> LandingZone:
    """Open a folder of OneLake or ADLS Gen2. Raise Misconfigured `landing_zone_unusable`."""
    _require_packages()
    from app.landing.adls.client import AdlsClient
    from app.landing.adls.zone import AdlsZone

    return AdlsZone(AdlsClient(address, options), Retries(options.retry_seconds), block_bytes=options.block_bytes)


def _require_packages() -> None:
    """Import what only remote landing zones need. Raise Misconfigured `landing_zone_unusable`."""
    try:
        import_module("app.landing.adls.client")
    except ModuleNotFoundError as missing:
        raise Misconfigured(
            Code.LANDING_ZONE_UNUSABLE,
            f"a landing zone in OneLake or ADLS Gen2 needs a package that is not installed: {missing.name}",
            remedy="Install the extra `mirrorgate-gateway[onelake]`.",
        ) from None
