"""How `pytest --numprocesses` shares the tests out to its processes.

The files with long tests start first, so that no process is left alone with one at the end. All tests of one Spark
session make one share: each further process with a session of its own would spend as long on its start as on a tenth
of them.
"""

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

_ONE_SESSION, _OWN_PROCESSES = "tests/spark/", "tests/spark/processes/"


def share_of(node_id: str) -> str:
    """Return what the process that runs this test runs with it: its file, or all that use the Spark session."""
    path = node_id.partition("::")[0]
    return _ONE_SESSION if path.startswith(_ONE_SESSION) and not path.startswith(_OWN_PROCESSES) else path


def long_first(items: list[pytest.Item]) -> None:
    """Sort tests by share: the Spark session, then files with tests marked as slow, then files with most tests."""
    sizes = Counter(share_of(item.nodeid) for item in items)
    slow = {share_of(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def rank(item: pytest.Item) -> tuple[bool, bool, int, str]:
        share = share_of(item.nodeid)
        return share != _ONE_SESSION, share not in slow, -sizes[share], share

    items.sort(key=rank)


class LongFirst(LoadFileScheduling):
    """Gives out shares in the order in which their tests were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
