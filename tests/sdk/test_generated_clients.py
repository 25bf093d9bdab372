"""The packages of examples/generated-clients/README.md, whose programs `tests/sdk/test_pages_in_order.py` runs."""

import json
import re

from tests.sdk.toolchains import NPM_FILES
from tests.support.processes import REPOSITORY


def test_one_variable_has_the_key_in_every_document_and_in_the_program() -> None:
    for document in sorted((REPOSITORY / "docs").glob("*.md")):
        assert not re.search(r"MIRRORGATE_KEY\b", document.read_text(encoding="utf-8")), document.name


def test_the_packages_of_the_typescript_client_are_pinned_without_a_place_to_get_them_from() -> None:
    declared, lock = (json.loads(file.read_text()) for file in NPM_FILES)
    wanted = declared["dependencies"] | declared["devDependencies"]
    locked = {name.removeprefix("node_modules/"): facts for name, facts in lock["packages"].items() if name}
    assert wanted == {name: locked[name]["version"] for name in wanted}
    assert not [name for name, facts in locked.items() if "resolved" in facts or "integrity" not in facts]
