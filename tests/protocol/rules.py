"""The rules of the publication protocol, each of which can be disabled, and the bounds of an exploration."""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Rule(Enum):
    """A requirement of the protocol."""

    LEASE = "W1: only the owner claims a table, or another drain once the owner's lease has expired"
    REVOKE = "W2: a claim revokes the scratch of every older epoch"
    REVOKE_MARK = "W2: a plain file takes the place of a revoked scratch folder"
    REVOKE_LOOP = "W2: revoking ends only once a plain file is in place"
    REVOKE_FOLDER_ONLY = "W2: only a folder is moved away, never the plain file of an earlier revocation"
    REVOKE_ONE_LOOK = "W2: one lookup distinguishes a plain file, a folder and nothing"
    REVOKE_BEFORE_LOOK = "W3: the planned number is verified only after all older epochs are revoked"
    BEYOND_SCRATCH = "W1: after the database went back, a claim takes an epoch above every one in scratch"
    LOOK_BEYOND = "W3: a file that the ledger does not know stops the table"
    RUN = "W1 to W8: an epoch counts only in the run of the database in which it was claimed"
    EPOCH_LOOK = "W3: a stale epoch stops before it verifies"
    LOOK = "W3: the planned number is verified before it is built"
    LOOK_CERTAIN = "W3: a fault of the store is no answer: verification is repeated under a new epoch"
    LOOK_IDENTITY = "W3: a file under the number counts only with the planned identity"
    LOOK_PROCESSED = "W3: a file that mirroring has moved to its processed files counts too"
    LOOK_MARKER = "W3: a file counts only in a folder that carries our marker"
    LAST_FILE = "W3: the last recorded file is present, visible or processed"
    PLAN_RECORDED = "W4: number and content are recorded before they are built"
    PLAN_NUMBER = "W4: the next number comes from the database, never from a listing"
    EPOCH_PLAN = "W4: a stale epoch plans nothing"
    ATTEMPT_NAMES = "W5: every attempt writes its own name"
    ONE_TEMP = "W5: one temporary file per epoch and number is the source of the rename"
    EPOCH_REGISTER = "W5: a stale epoch registers nothing"
    TEMP_SYNCED = "W5: a temporary file is durable before it is registered"
    FOLDER_FROM_SCRATCH = "W6: the table folder is renamed out of the owner's scratch"
    FOLDER_MARKER = "W6: nothing is published into a folder without our marker"
    FOLDER_ONCE = "W6: a folder that held recorded files is not created again"
    NO_REPLACE = "W7: a rename never replaces"
    RENAME_SYNCED = "W7: a rename is durable before it is recorded"
    SEEN_SYNCED = "W3: a file that is found is made durable before it is recorded or relied on"
    EPOCH_RECORD = "W8: a stale epoch records nothing"
    RECORD_IN_ORDER = "W8: a file is recorded only after its predecessor"
    ONE_UNRECORDED = "W9: a number is published only once the one before is recorded"
    EPOCH_QUARANTINE = "a stale epoch quarantines nothing"
    DROP_EPOCH = "R1: a drop starts a new epoch"
    DROP_REVOKE = "R2: a drop revokes the scratch of every older epoch"
    DROP_IDENTITY = "R3: a folder is deleted only with our marker"
    EPOCH_DROP = "R3: a stale epoch deletes no folder"
    DROP_CONDITION = (
        "R4: exactly the folder that was verified is deleted: by ETag, or by a move into the owner's scratch"
    )
    DROP_SYNCED = "R5: the deletion of a folder is durable before the next generation starts"
    DROP_WAIT = "R5: the next generation starts only once the folder is gone"
    EPOCH_RECREATE = "R6: a stale epoch starts no generation"
    REBUILD_NOTES = "B1: from the request on, each batch notes the rows that it changes"
    REBUILD_DISCARD = "B2: an attempt discards what an earlier one copied"
    REBUILD_CLEAR = "B3: a snapshot forgets the notes from before it"
    REBUILD_SNAPSHOT_LOCK = "B3: no batch commits between the snapshot and the end of older notes"
    REBUILD_ATTEMPT = "B3 to B5: an attempt that was replaced changes nothing"
    REBUILD_ALONE = "R1: a table is not dropped while a rebuild is due"
    REBUILD_LAST_CORRECTION = "B5: the switch corrects what changed until then"
    REBUILD_EPOCH = "B5: the switch starts a new epoch"
    REBUILD_WAIT = "B5: the rebuilt generation publishes only once the folder of the one before is gone"


ALL: Final = frozenset(Rule)


class Mirror(Enum):
    """What mirroring does with files that it has consumed."""

    LEAVES = "leaves them"
    MOVES_OLDER = "moves them away and keeps what it moved, but leaves the last one in place"
    KEEPS_LAST = "moves them away and removes them, now or later, but leaves the last one in place"
    MOVES_ALL = "moves them away, also the last one, and keeps what it moved"
    MOVES_ALL_REMOVES_RECORDED = "moves them away, also the last one, and removes them long after they are recorded"
    REMOVES_ALL = "removes them at once, also the last one"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of an exploration. Deaths and pauses of drains are never bounded."""

    drains: int = 2
    blocks: int = 3
    epochs: int = 3
    in_flight: int = 1
    """Concurrent requests that the store may execute later, or never; lost task attempts are among them."""
    drops: int = 0
    rebuilds: int = 0
    changes: int = 0
    """Changes of the row while a rebuild is due."""
    attempts: int = 1
    """Attempts at a rebuild; an older one may continue beside a newer one."""
    by_etag: bool = False
    """Whether a folder is deleted on condition of its ETag, possibly late, or is moved into scratch at once."""
    outside: int = 0
    """Changes of the landing zone by other users: files created or deleted, folders deleted or exchanged."""
    mirror: Mirror = Mirror.KEEPS_LAST
    power: bool = False
    """Whether the store's machine may lose power, and with it everything that was not synced."""
    faults: bool = False
    """Whether verification may fail because the store does."""
    setbacks: int = 0
    """Failovers to a standby that may lack the last transactions, with drains that go on."""
    stale_is_wrong: bool = True
    """Whether any visible change by a stale owner is a violation, or only a harmful one."""
    leases: bool = False
    """Whether leases expire in a separate step; otherwise a claim includes the expiry."""


@dataclass(frozen=True, slots=True)
class Case:
    """One exploration: its bounds, and the rules that hold."""

    bounds: Bounds
    rules: frozenset[Rule] = ALL

    def holds(self, rule: Rule) -> bool:
        return rule in self.rules

    def without(self, *rules: Rule) -> "Case":
        return Case(self.bounds, self.rules - set(rules))
