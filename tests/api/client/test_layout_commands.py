"""The commands of layouts, against a gateway."""

import json
from pathlib import Path

from tests.api.calls import Gateway
from tests.api.commands import Terminal

LAYOUT = {"data": "row", "headers": "meta", "operations": {"I": "insert"}}


def test_the_commands_store_show_list_and_delete_a_layout(gateway: Gateway, terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "layout.json"
    file.write_text(json.dumps(LAYOUT))
    assert "flat: 3 parts" in terminal.run("layouts", "put", "flat", file).output
    assert json.loads(terminal.run("layouts", "show", "flat").output) == LAYOUT
    assert "data, headers, operations" in terminal.run("layouts", "list").output
    assert json.loads(terminal.run("layouts", "list", "--json").output)[0]["layout"] == LAYOUT
    assert "deleted" in terminal.run("layouts", "delete", "flat").output
    assert gateway.get("/v1/layouts").json() == {"layouts": []}
    file.write_text("{")
    ended = terminal.run("layouts", "put", "flat", file)
    assert (ended.status, "is not JSON" in ended.errors) == (1, True)
    assert "cannot be read" in terminal.run("layouts", "put", "flat", tmp_path / "none.json").errors
