"""The rules that the emulator keeps, each with its source, and where it differs from Fabric.

`make docs` writes them into docs/operate/emulator.md. A rule that no source states is a difference.
"""

from typing import Final

RULES: Final = {
    "Row markers, file order, `_metadata.json`, hidden names, changes of types, gaps": (
        "Microsoft Learn, *Landing zone requirements and formats*"
    ),
    "Applied files move to `_ProcessedFiles` and `_FilesReadyToDelete`; the last one stays; 7 days": (
        "Microsoft Learn, *Landing zone requirements and formats*"
    ),
    "Deleting a folder drops its table; stopping and starting the database reloads all tables": (
        "Microsoft Learn, *Best practices for open mirroring*"
    ),
    "States of tables, `Files/Monitoring/tables.json`": (
        "Microsoft Learn, *Monitor Fabric mirrored database replication*"
    ),
    "REST API": "Fabric REST API specification, version v1: mirroredDatabase, platform, common",
    "DFS and blob service": (
        "Azure Storage REST reference; `azure-storage-file-datalake` 12.26, PyArrow, obstore and OpenDAL as clients"
    ),
    "`GET` of a folder with `resource=filesystem` lists the folder": "the publisher pyfabric 0.1.15, which needs it",
    "Tokens of a managed identity": "Microsoft Learn, *Managed identities for App Service*; `azure-identity`",
}
"""Sources by rule."""

DIFFERENCES: Final = {
    "SQL": ("DuckDB over HTTP; always the newest rows", "T-SQL over TDS; new rows show after a metadata sync"),
    "Timing": ("looks at the landing zones every 0.2 s", "not documented"),
    "Last synchronization of a table": ("each look with nothing left to apply", "not documented"),
    "Limits": ("none of capacity, tables or bytes a day", "1,000 tables, 1 TB a day, throttling by the capacity"),
    "`_FilesReadyToDelete`": ("after half of the retention", "time not documented"),
    "Tables ordered by time, or in partitions": ("applied files stay", "applied files move"),
    "A table that fails": ("is tried at each look", "waits for an operator after some errors"),
    "A table without data": ("stays *Initialized*", "fails after about two weeks, and can pause the database"),
    "Error codes of tables": ("two of Fabric's, else those of `mirrorgate mirror`", "its own"),
    "Delta tables": ("no deletion vectors, no column mapping, no V-Order", "all three"),
    "A paused capacity": ("OneLake: 404; REST API: *Paused*", "codes not documented; items can be hidden"),
    "Identities": ("one workspace; every token has all rights", "roles"),
    "Tokens": ("the one that is printed, and those that it issues: no JWT", "signed by Entra ID, which `fab` checks"),
    "Plain HTTP": ("answered", "not answered"),
    "OneLake": (
        "no Put Block; leases, ETags and metadata end with the process; names up to 255 bytes",
        "no such limits",
    ),
    "`Files/Monitoring/replicator.json`": ("absent", "present"),
}
"""What the emulator does and what Fabric does, by subject."""
