"""The rules of the publication protocol, each of which can be disabled, and the bounds of an exploration."""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Rule(Enum):
    """One thing that the protocol demands."""

    LEASE = "W1: a table is claimed only by its owner or once its owner's lease has run out"
    REVOKE = "W2: a claim revokes the scratch of every older epoch"
    REVOKE_MARK = "W2: a plain file takes the place of a revoked scratch folder"
    REVOKE_LOOP = "W2: revoking ends only when a plain file stands there"
    REVOKE_FOLDER_ONLY = "W2: only a folder is moved away, never the plain file of an earlier revocation"
    REVOKE_ONE_LOOK = "W2: one look tells a plain file from a folder and from nothing"
    REVOKE_BEFORE_LOOK = "W3: nobody looks at the planned number before all older epochs are revoked"
    EPOCH_LOOK = "W3: a stale epoch stops before it looks"
    LOOK = "W3: the planned number is looked at before it is built"
    LOOK_CERTAIN = "W3: a fault of the store is no answer: the look is done again, under a new epoch"
    LOOK_IDENTITY = "W3: a file under the number counts only with the planned identity"
    LOOK_PROCESSED = "W3: a file that mirroring has moved to its processed files counts as well"
    LOOK_MARKER = "W3: a file counts only in a folder that carries our marker"
    LAST_FILE = "W3: the last recorded file stands, visible or processed"
    PLAN_RECORDED = "W4: number and content are recorded before they are built"
    PLAN_NUMBER = "W4: the next number comes from the database, never from a listing"
    EPOCH_PLAN = "W4: a stale epoch plans nothing"
    ATTEMPT_NAMES = "W5: every attempt writes its own name"
    ONE_TEMP = "W5: one temp per epoch and number is the source of the rename"
    EPOCH_REGISTER = "W5: a stale epoch registers nothing"
    TEMP_SYNCED = "W5: a temp is durable before it is registered"
    FOLDER_FROM_SCRATCH = "W6: the table folder is renamed out of the owner's scratch"
    FOLDER_MARKER = "W6: nothing is published into a folder without our marker"
    FOLDER_ONCE = "W6: a folder that held recorded files is not made again"
    NO_REPLACE = "W7: a rename never replaces"
    RENAME_SYNCED = "W7: a rename is durable before it is recorded"
    SEEN_SYNCED = "W3: what is found standing is made durable before it is recorded or built upon"
    EPOCH_RECORD = "W8: a stale epoch records nothing"
    RECORD_IN_ORDER = "W8: a file is recorded only after its predecessor"
    ONE_UNRECORDED = "W9: a number is published only when the one before is recorded"
    EPOCH_QUARANTINE = "a stale epoch quarantines nothing"
    DROP_EPOCH = "R1: a drop begins a new epoch"
    DROP_REVOKE = "R2: a drop revokes the scratch of every older epoch"
    DROP_IDENTITY = "R3: a folder is deleted only with our marker"
    DROP_CONDITION = "R4: exactly the folder that was looked at is deleted: by its ETag, or into the owner's scratch"
    DROP_SYNCED = "R5: a folder that is gone is durably gone before the next generation begins"
    DROP_WAIT = "R5: the next generation begins only when the folder is gone"
    EPOCH_RECREATE = "R6: a stale epoch begins no generation"


ALL: Final = frozenset(Rule)


class Mirror(Enum):
    """What mirroring does with files that it has consumed."""

    LEAVES = "leaves them"
    MOVES_OLDER = "moves them away and keeps what it moved, but leaves the last one in place"
    KEEPS_LAST = "moves them away and removes them, now or later, but leaves the last one in place"
    MOVES_ALL = "moves them away, also the last one, and keeps what it moved"
    MOVES_ALL_REMOVES_RECORDED = (
        "moves them away, also the last one, and removes them when they have long been recorded"
    )
    REMOVES_ALL = "removes them at once, also the last one"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a world is explored. Deaths and pauses of drains are never bounded."""

    drains: int = 2
    blocks: int = 3
    epochs: int = 3
    in_flight: int = 1
    """Requests that the store may carry out later, or never, at one time; lost task attempts are among them."""
    drops: int = 0
    by_etag: bool = False
    """Whether a folder is deleted on condition of its ETag, and maybe late; else it is moved into scratch, at once."""
    outside: int = 0
    """Things done to the landing zone by others: files put or deleted, folders deleted or exchanged."""
    mirror: Mirror = Mirror.KEEPS_LAST
    power: bool = False
    """Whether the store's machine may lose its power, and with it what was not synced."""
    faults: bool = False
    """Whether a look may fail because the store does."""
    stale_is_wrong: bool = True
    """Whether it is a violation by itself that a stale owner changes something visible, or only what comes of it."""
    leases: bool = False
    """Whether leases run out in a step of their own; otherwise a claim includes that."""


@dataclass(frozen=True, slots=True)
class Case:
    """One exploration: which rules hold, how far it goes."""

    bounds: Bounds
    rules: frozenset[Rule] = ALL

    def holds(self, rule: Rule) -> bool:
        return rule in self.rules

    def without(self, *rules: Rule) -> "Case":
        return Case(self.bounds, self.rules - set(rules))
