"""What a landing zone contains and cannot be read: it stops one table, and never its reader."""

from app.errors import Code, InvariantBroken


class UnreadableFile(InvariantBroken):
    """A data file that is no Parquet or delimited text, is not whole, or has columns that nothing can read."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file by its path in the zone. `reason` contains no value."""
        super().__init__(Code.LANDING_FILE_UNREADABLE, f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnreadableMetadata(InvariantBroken):
    """A missing `_metadata.json`, or one that says nothing usable."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file by its path in the zone."""
        super().__init__(Code.LANDING_METADATA_UNREADABLE, f"{path}: {reason}")
        self.path = path
        self.reason = reason
