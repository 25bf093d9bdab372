"""Client of Fabric's REST API for mirrored databases.

It exists because the landing zone does not say whether Fabric reads it: a paused database or a failed table stops
silently. `opening` makes a client from the settings, `client` has the calls, `transport` sends one request with its
token, repeats and errors, `operations` waits for long-running operations, `tokens` asks Azure for tokens, `items` and
`definition` read and write the wire shapes. Invariant: a token is sent to the configured address only, even if another
address an answer names.
"""

from app.domain.fabric import DatabaseState, DatabaseStatus, FabricFault, TableMirroring
from app.fabric.client import FabricClient, open_fabric

__all__ = ["DatabaseState", "DatabaseStatus", "FabricClient", "FabricFault", "TableMirroring", "open_fabric"]
