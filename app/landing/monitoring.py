"""Fabric's replication status: `Files/Monitoring/tables.json` beside the landing zone."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.landing.adls.address import StorageAddress
from app.landing.local_zone import open_regular
from app.landing.open_zone import ZoneAddress, open_remote

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
