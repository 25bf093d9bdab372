"""Empty the caches of what was worked out from a table's rules, so that no test gets what another one worked out.

Mutation testing needs this most: it forks after all tests have run once, with everything already worked out.
"""

import pytest

from app.domain.rows import row_layout, typed_columns


@pytest.fixture(autouse=True)
def fresh_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for cache in (row_layout._LAYOUTS, typed_columns._ALIKE):
        monkeypatch.setattr(cache, "_kept", {})
