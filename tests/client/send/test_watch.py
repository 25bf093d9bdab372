"""Progress is for people who look on; where nobody does, nothing is printed."""

import io

import pytest
from rich.console import Console

from app.client.send.sender import Sent
from app.client.send.watch import Watch


@pytest.mark.parametrize("total", [100, None])
def test_a_terminal_shows_how_many_changes_were_accepted_and_a_pipe_nothing(total: int | None) -> None:
    shown = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=140)
        watch = Watch(console)
        with watch.watching():
            watch.begins("a.json", total)
            watch.reads(50)
            watch.lags(2, 3_000_000)
            watch.accepted(Sent(bytes=50, changes=1_200))
        assert isinstance(console.file, io.StringIO)
        shown[terminal] = console.file.getvalue()
    assert "1,200 changes" in shown[True]
    assert "waiting: 2 files, 3.0 MB" in shown[True]
    assert shown[False] == ""
