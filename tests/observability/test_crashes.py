"""What a process leaves that a library in C has crashed."""

import signal
import sys

from tests.support.processes import finished

CRASHES = """
import ctypes
from app.observability.telemetry import configure_logging
from app.settings import Settings
configure_logging(Settings(database_url="postgresql://127.0.0.1/t"))
ctypes.string_at(0)
"""


def test_a_crash_in_a_library_says_where_each_thread_was() -> None:
    ran = finished(sys.executable, "-c", CRASHES)
    assert ran.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ran.stderr
    assert "in string_at" in ran.stderr
