"""Settings of the landing zone, and of Fabric's API for the database that reads it.

`LandingZoneSettings` has the zone's address, and the form of the files in it. `FabricSettings` says which mirrored
database reads the landing zone, and where it is asked for its state.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from mirrorgate.errors import Code, Misconfigured

HOST: Final = r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?"
"""Pattern of a host name or address with a port or none, as clients can read it."""
_HTTPS_HOST: Final = f"^https://{HOST}$"


class FabricSettings(BaseModel, use_attribute_docstrings=True):
    """The mirrored database, and the addresses of Fabric's API."""

    fabric_workspace: Annotated[str | None, Field(min_length=1)] = None
    """Name or id of the workspace with the mirrored database. Unset: the one in the landing zone's address, if that is
    in OneLake."""
    fabric_database: Annotated[str | None, Field(min_length=1)] = None
    """Name or id of the mirrored database. Unset: the one in the landing zone's address, if that is in OneLake."""
    fabric_api: Annotated[str, Field(pattern=_HTTPS_HOST)] = "https://api.fabric.microsoft.com"
    """Address of Fabric's API: another one in a national cloud, or of a private link."""
    fabric_audience: Annotated[str, Field(pattern="^https://[^@?#]+$")] = "https://api.fabric.microsoft.com"
    """Audience of the tokens for Fabric's API. Another one in a national cloud only; `AZURE_AUTHORITY_HOST` then names
    the authority that issues them."""
    fabric_poll_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Seconds between two questions to Fabric's API about the state of the mirrored database and its tables, by all
    drains together. 0: never."""
    fabric_start: bool = False
    """`true`: a drain starts mirroring of a database that has never been started, once the first table has a file.
    `mirrorgate fabric init` sets it. It needs `MIRRORGATE_FABRIC_POLL_SECONDS`."""
    fabric_refresh_sql: bool = False
    """`true`: a drain refreshes the SQL analytics endpoint after Fabric has processed files, so that queries show the
    rows at once and `mirrorgate wait --until queryable` works. It needs the role Contributor, and uses some of the
    capacity, at most once every `MIRRORGATE_FABRIC_POLL_SECONDS`."""


class RowMarkerPosition(StrEnum):
    """Position of the column `__rowMarker__` in a landing file."""

    LAST = "last"
    FIRST = "first"


class Compression(StrEnum):
    """Parquet codecs that open mirroring can read."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class LandingZoneSettings(BaseModel, use_attribute_docstrings=True):
    """Location of the landing zone, times of publication, and form of the files."""

    landing_zone: str | None = None
    """Landing zone of the drain: a folder, which is created if it is missing, or an address in OneLake or ADLS Gen2:
    `abfss://<workspace>@onelake.dfs.fabric.microsoft.com/<item>/Files/LandingZone`."""
    storage_endpoint: Annotated[str | None, Field(pattern=_HTTPS_HOST)] = None
    """`https://host:port` of a proxy or private endpoint for OneLake or ADLS Gen2. Unset: the host in the landing
    zone's address."""
    storage_api_version: str | None = None
    """`x-ms-version` to send to OneLake or ADLS Gen2. Unset: the newest that the Azure SDK knows."""
    target_file_bytes: Annotated[int, Field(ge=1)] = 128 * 2**20
    """Staged payload bytes at which the drain closes a landing file."""
    target_file_rows: Annotated[int, Field(ge=1)] = 1_000_000
    """Rows at which the drain closes a landing file."""
    row_group_rows: Annotated[int, Field(ge=1_000, le=2**24)] = 1_048_576
    """Rows of a row group at most, in landing files and in the tables of the mirror. Direct Lake reads row groups of
    one million to 16 million rows best. One of a landing file also ends at 64 MiB."""
    max_delay_seconds: Annotated[float | None, Field(ge=0)] = None
    """Maximum time that a batch waits for its file to fill, in seconds. Unset: 1 for a folder, 30 for OneLake and ADLS
    Gen2."""
    row_marker_position: RowMarkerPosition = RowMarkerPosition.LAST
    """Position of `__rowMarker__` in landing files: `last` or `first`."""
    compression: Compression = Compression.ZSTD
    """Parquet codec: `zstd`, `snappy`, `gzip` or `none`."""
    partner_name: Annotated[str, Field(min_length=1)] = "Mirrorgate"
    """`partnerName` in `_partnerEvents.json`."""
    source_type: Annotated[str, Field(min_length=1)] = "Mirrorgate"
    """`sourceInfo.sourceType` in `_partnerEvents.json`."""
    source_version: Annotated[str | None, Field(min_length=1)] = None
    """`sourceInfo.sourceVersion` in `_partnerEvents.json`. Unset: none."""
    source_information: dict[str, str] = {}
    """`sourceInfo.additionalInformation` in `_partnerEvents.json`: a JSON object of strings, such as `{"site":
    "Berlin"}`. Never put a secret into it."""

    @property
    def partner_events(self) -> dict[str, Any]:
        """The content of `_partnerEvents.json`: who publishes, and from which source."""
        source: dict[str, Any] = {"sourceType": self.source_type}
        if self.source_version is not None:
            source["sourceVersion"] = self.source_version
        if self.source_information:
            source["additionalInformation"] = self.source_information
        return {"partnerName": self.partner_name, "sourceInfo": source}

    @property
    def marker_first(self) -> bool:
        """True if landing files begin with the row marker."""
        return self.row_marker_position is RowMarkerPosition.FIRST

    @property
    def max_delay(self) -> float:
        """`max_delay_seconds`, or the default of the landing zone: Fabric takes in less than one file a second."""
        if self.max_delay_seconds is not None:
            return self.max_delay_seconds
        return 30.0 if _is_address(self.landing_zone or "") else 1.0

    def require_landing_zone(self) -> str:
        """Return the landing zone's address, or its absolute folder. Raise Misconfigured `bad_setting` if unset."""
        if not self.landing_zone:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_LANDING_ZONE is not set",
                remedy="Set it to the folder or address to publish into.",
            )
        return self.landing_zone if _is_address(self.landing_zone) else str(Path(self.landing_zone).absolute())


def _is_address(landing_zone: str) -> bool:
    return "://" in landing_zone
