"""Settings, and what a start checks before anything listens or is written.

`model` is the only reader of the environment: every setting is one `MIRRORGATE_*` variable. `start_checks` checks
address, port, TLS files, memory and token settings. Other packages import from here: `from app.settings import
Settings`.
"""

from app.settings.model import LOOPBACK, PREFIX, Compression, LogFormat, Settings, unknown_variables

__all__ = ["LOOPBACK", "PREFIX", "Compression", "LogFormat", "Settings", "unknown_variables"]
