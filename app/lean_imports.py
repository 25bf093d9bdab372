"""An API process goes without pandas.

pyarrow imports it with the first value that it converts, wherever it is installed, as it is beside PySpark: 40 MB and
half a second for nothing that the API does. An API that is installed alone has none.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process goes without pandas", name=name)


def leave_out_pandas() -> None:
    """From now on pandas is as if it were not installed; what has been imported stays."""
    sys.meta_path.insert(0, _WithoutPandas())
