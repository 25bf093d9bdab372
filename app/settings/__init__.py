"""Settings, and what a start checks before anything listens or is written.

`model` joins the settings and is the only reader of the environment: every setting is one `MIRRORGATE_*` variable. Each
subject has a class with its fields, their descriptions and checks, in `model`, `api`, `landing_zone` or `operation`.
`start_checks` checks address, port, TLS files, memory and tokens. Other packages import from here: `from app.settings
import Settings`. To add a setting, add a field to the class of its subject and run `make docs`:
docs/reference/settings.md is generated from the fields.
"""

from app.settings.api import LOOPBACK
from app.settings.landing_zone import Compression
from app.settings.model import PREFIX, Settings, unknown_variables
from app.settings.operation import LogFormat

__all__ = [
    "LOOPBACK",
    "PREFIX",
    "Compression",
    "LogFormat",
    "Settings",
    "unknown_variables",
]
