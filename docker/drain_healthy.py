"""Health check of the drain image: whether a drain keeps its lease in the database.

It cannot tell this container's drain from another one on the same database.
"""

import sys

from app.settings import Settings
from app.staging.connection.database import open_engine
from app.staging.ledger.leases import live_workers

engine = open_engine(Settings.from_environment().require_database_url())
try:
    with engine.begin() as connection:
        live = live_workers(connection)
finally:
    engine.dispose()
if live == 0:
    sys.exit("no drain has a running lease")
