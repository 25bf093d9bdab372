"""The tests that need pandas, in a process that finds it."""

import os
import re
import sys

from tests.real.counterparts import PANDAS, pandas_folder, pinned
from tests.real.report import Report
from tests.support.processes import succeeded

TESTS = ["tests/api/client/test_pandas.py", "tests/mirror/test_table_mirror.py::test_pandas_reads_it"]


def test_frames_of_pandas_land_with_their_types_and_read_the_mirror(report: Report) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *TESTS]
    environment = os.environ | {"PYTHONPATH": str(pandas_folder())}
    printed = succeeded(*command, environment=environment, timeout=300)
    passed = re.search(r"^(\d+) passed in", printed, re.MULTILINE)
    assert passed is not None, f"a test was skipped:\n{printed}"
    report.add(pinned(PANDAS), int(passed[1]))
