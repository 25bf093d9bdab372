"""What a command printed, when it ran inside the test process."""

import json
from typing import Any


def first_json(output: str) -> Any:
    """Return the first JSON value of an output.

    A Spark that an earlier test of this process started can log a line to the same output at any time.
    """
    value, _ = json.JSONDecoder().raw_decode(output.lstrip())
    return value
