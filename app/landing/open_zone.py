"""The store of a landing zone, chosen by its address: a local folder, or OneLake and ADLS Gen2.

Fabric's replication status is in `Files/Monitoring/tables.json` beside the landing zone.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.retries import Retries
from app.landing.local_zone import LocalZone, open_regular
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


_FOLDER: Final = "Monitoring"
_FILE: Final = "tables.json"
_MAX_BYTES: Final = 16 * 2**20
_RETRY_SECONDS: Final = 5.0


def read_tables_json(address: ZoneAddress) -> bytes | None:
    """Return the file beside this landing zone, None if there is none. Raise OSError if it cannot be read."""
    with suppress(FileNotFoundError, NotADirectoryError):
        content = _read_remote(address) if address.is_remote else _read_local(Path(address.location))
        if len(content) > _MAX_BYTES:
            raise OSError(f"{_FOLDER}/{_FILE} is larger than {_MAX_BYTES} bytes")
        return content
    return None


def _read_local(landing_zone: Path) -> bytes:
    with open_regular(landing_zone.parent / _FOLDER / _FILE) as file:
        return file.read(_MAX_BYTES + 1)


def _read_remote(address: ZoneAddress) -> bytes:
    zone = StorageAddress.parse(address.location)
    parent = zone.root.rpartition("/")[0]
    beside = replace(zone, root=f"{parent}/{_FOLDER}" if parent else _FOLDER)
    options = replace(address.options, retry_seconds=min(_RETRY_SECONDS, address.options.retry_seconds))
    with open_remote(beside, options).read_file(_FILE) as file:
        return file.read(_MAX_BYTES + 1)
