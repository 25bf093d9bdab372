"""Progress is shown on a terminal only."""

import io

import pytest
from rich.console import Console

from mirrorgate.send.progress import Progress, ProgressDisplay


@pytest.mark.parametrize("total", [100, None])
def test_a_terminal_shows_how_many_changes_were_accepted_and_a_pipe_nothing(total: int | None) -> None:
    shown = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=140)
        display = ProgressDisplay(console)
        with display.running():
            display.start_file("a.json", total, 2)
            display.add_read(50)
            display.show_accepted(Progress(bytes=50, changes=1_200))
        assert isinstance(console.file, io.StringIO)
        shown[terminal] = console.file.getvalue()
    assert "1,200 changes" in shown[True]
    assert "2 more files" in shown[True]
    assert shown[False] == ""
