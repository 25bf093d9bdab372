"""Client of Fabric's REST API for mirrored databases.

It exists because the landing zone does not say whether Fabric reads it: a paused database or a failed table stops
silently. `client` has the calls, waits for long-running operations, and makes a client from the settings. `transport`
sends one request with its token from `app.azure_tokens`, repeats and errors. `definition` reads and writes the
definition of a mirrored database. Invariant: a token is sent to the configured address only, even if another address an
answer names.
"""

from app.domain.fabric import DatabaseState, DatabaseStatus, FabricFault, TableMirroring
from app.fabric.client import FabricClient, open_fabric

__all__ = ["DatabaseState", "DatabaseStatus", "FabricClient", "FabricFault", "TableMirroring", "open_fabric"]
