"""One mirror per target: the second process that would write the same Delta tables is rejected.

`exclusive` chooses by the target: `folder_lock` holds a file lock in a local folder, `lease` a small Delta table in an
object store. Both protect against wasted work and confusing reports. Correctness does not depend on them: the Delta log
of a table rejects a second commit of one landing file (docs/decisions/0038).
"""

from app.mirror.target_lock.exclusive import exclusive_target
from app.mirror.target_lock.held_target import HeldTarget

__all__ = ["HeldTarget", "exclusive_target"]
