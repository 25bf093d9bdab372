"""Table options are read by msgspec before any thread needs them."""

import subprocess
import sys

from tests.project.facts import REPOSITORY

READ_AT_ONCE = """
import sys, threading, msgspec
from app.domain.model.table_options import TableOptions
assert "__msgspec_cache__" in vars(TableOptions), "the first threads that read options would crash the process"
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)
def read():
    together.wait()
    assert msgspec.convert({"columns": {}}, TableOptions) == TableOptions()
threads = [threading.Thread(target=read) for _ in range(8)]
for step in (threading.Thread.start, threading.Thread.join):
    for thread in threads:
        step(thread)
"""


def test_threads_that_read_the_options_of_tables_first_at_the_same_time_do_not_crash_the_process() -> None:
    ran = subprocess.run([sys.executable, "-c", READ_AT_ONCE], cwd=REPOSITORY, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
