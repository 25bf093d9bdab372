"""The cases to explore, and what is known of each rule: what happens without it, or why nothing does."""

from dataclasses import replace
from typing import Final

from tests.protocol.rules import Bounds, Mirror, Rule

PUBLISHING: Final = Bounds(blocks=2)
OUTSIDERS: Final = Bounds(blocks=2, in_flight=0, outside=1, mirror=Mirror.MOVES_OLDER)
MOVES_ALL: Final = Bounds(blocks=2, mirror=Mirror.MOVES_ALL)
POWER: Final = Bounds(blocks=2, in_flight=0, power=True, mirror=Mirror.LEAVES)
FAULTS: Final = Bounds(blocks=2, in_flight=0, faults=True)
LEASES: Final = Bounds(blocks=2, in_flight=0, leases=True)
DROPS: Final = Bounds(blocks=1, epochs=4, in_flight=0, drops=1)
DROPS_BY_ETAG: Final = replace(DROPS, in_flight=1, by_etag=True)
DROPS_AND_POWER: Final = replace(DROPS, power=True, mirror=Mirror.LEAVES)
REBUILDS: Final = Bounds(blocks=1, epochs=4, in_flight=0, rebuilds=1)
REBUILDS_AND_DROPS: Final = replace(REBUILDS, drains=1, drops=1, epochs=5)
COPIES: Final = replace(REBUILDS, drains=1, epochs=2, changes=2, attempts=2, mirror=Mirror.LEAVES)

SETBACKS: Final = Bounds(blocks=1, in_flight=0, setbacks=1, mirror=Mirror.MOVES_ALL)
SETBACKS_OF_ONE: Final = replace(SETBACKS, drains=1, blocks=2, epochs=2)
DROPS_AND_OUTSIDERS: Final = replace(DROPS, outside=1, mirror=Mirror.MOVES_OLDER)

BOUNDS: Final[dict[str, tuple[Bounds, int]]] = {
    "three blocks, two drains, late requests": (Bounds(), 1_000_000),
    "a drop": (DROPS, 40_000),
    "a drop by ETag, late requests": (DROPS_BY_ETAG, 350_000),
    "a drop and power loss": (DROPS_AND_POWER, 50_000),
    "a drop and another user of the landing zone": (DROPS_AND_OUTSIDERS, 250_000),
    "another user of the landing zone": (OUTSIDERS, 100_000),
    "mirroring that moves the last file too": (MOVES_ALL, 200_000),
    "power loss": (POWER, 10_000),
    "three drains": (Bounds(drains=3, blocks=1, mirror=Mirror.LEAVES), 60_000),
    "a rebuild": (REBUILDS, 100_000),
    "a rebuild, and a drop before or after it": (REBUILDS_AND_DROPS, 1_000),
    "a rebuild in two attempts while the row changes": (COPIES, 30_000),
    "leases that expire in separate steps": (LEASES, 30_000),
    "a store that fails to read": (FAULTS, 10_000),
    "a failover that loses transactions": (SETBACKS, 80_000),
    "a failover that loses transactions of two files": (replace(SETBACKS, blocks=2), 600_000),
}
"""Bounds by name, and the least number of states to explore."""

LARGE_BOUNDS: Final[dict[str, Bounds]] = {
    "a failover that loses transactions, four epochs": replace(SETBACKS, blocks=2, epochs=4),
    "two late requests": Bounds(blocks=2, in_flight=2),
    "four epochs": Bounds(blocks=2, epochs=4),
    "two drops by ETag": replace(DROPS_BY_ETAG, epochs=5, drops=2),
    "a drop of two blocks": replace(DROPS, blocks=2, in_flight=1),
    "two changes by other users of the landing zone": Bounds(blocks=2, outside=2, mirror=Mirror.MOVES_OLDER),
    "power loss, late requests": replace(POWER, in_flight=1),
    "three drains, two blocks": Bounds(drains=3, blocks=2),
}
"""For `python -m tests.protocol`, not for every test run."""

_MIXED: Final = (replace(DROPS, stale_is_wrong=False), "the folder of another generation appears")
_MIXED_LATE: Final = (replace(DROPS_BY_ETAG, stale_is_wrong=False), _MIXED[1])
_TWICE: Final = "a number lands twice"
_STOPPED: Final = "a table is quarantined without outside interference"
_LACKS: Final = "the rebuilt generation lacks a change"
_OTHER_IMAGE: Final = "a correction takes the copy for another image than it has"

REQUIRED: Final[dict[Rule, tuple[Bounds, str]]] = {
    Rule.REVOKE: _MIXED,
    Rule.REVOKE_MARK: _MIXED,
    Rule.REVOKE_LOOP: _MIXED,
    Rule.REVOKE_FOLDER_ONLY: _MIXED_LATE,
    Rule.REVOKE_ONE_LOOK: _MIXED,
    Rule.REVOKE_BEFORE_LOOK: _MIXED,
    Rule.BEYOND_SCRATCH: (SETBACKS, _TWICE),
    Rule.LOOK_BEYOND: (SETBACKS_OF_ONE, _TWICE),
    Rule.RUN: (SETBACKS_OF_ONE, _TWICE),
    Rule.LOOK: (MOVES_ALL, _TWICE),
    Rule.LOOK_CERTAIN: (FAULTS, _STOPPED),
    Rule.LOOK_IDENTITY: (OUTSIDERS, "a foreign file is taken for ours"),
    Rule.LOOK_PROCESSED: (MOVES_ALL, _STOPPED),
    Rule.LOOK_MARKER: (OUTSIDERS, "another gateway's file is taken for ours"),
    Rule.LAST_FILE: (OUTSIDERS, "a file is published behind one that was missing"),
    Rule.PLAN_RECORDED: (MOVES_ALL, _TWICE),
    Rule.PLAN_NUMBER: (MOVES_ALL, _TWICE),
    Rule.ATTEMPT_NAMES: (PUBLISHING, "a partial file becomes visible"),
    Rule.ONE_TEMP: (PUBLISHING, _TWICE),
    Rule.TEMP_SYNCED: (POWER, "a partial file is visible"),
    Rule.FOLDER_FROM_SCRATCH: _MIXED,
    Rule.FOLDER_MARKER: (OUTSIDERS, "a file is published into another gateway's folder"),
    Rule.FOLDER_ONCE: (OUTSIDERS, "the folder starts again at 1 although files were recorded"),
    Rule.NO_REPLACE: (OUTSIDERS, "a visible file is replaced"),
    Rule.RENAME_SYNCED: (POWER, "what was recorded is lost"),
    Rule.SEEN_SYNCED: (POWER, "what was recorded is lost"),
    Rule.EPOCH_RECORD: (DROPS, "recorded files are in no folder of their generation"),
    Rule.ONE_UNRECORDED: (PUBLISHING, _TWICE),
    Rule.EPOCH_QUARANTINE: (DROPS, _STOPPED),
    Rule.DROP_REVOKE: _MIXED,
    Rule.DROP_IDENTITY: (DROPS_AND_OUTSIDERS, "another gateway's folder is deleted"),
    Rule.EPOCH_DROP: (DROPS_BY_ETAG, "the folder of an active generation is deleted"),
    Rule.DROP_CONDITION: (DROPS, "the folder of an active generation is deleted"),
    Rule.DROP_SYNCED: (DROPS_AND_POWER, _STOPPED),
    Rule.DROP_WAIT: (DROPS_BY_ETAG, _STOPPED),
    Rule.EPOCH_RECREATE: (DROPS, "a generation starts that was not requested"),
    Rule.REBUILD_NOTES: (COPIES, _LACKS),
    Rule.REBUILD_DISCARD: (COPIES, _OTHER_IMAGE),
    Rule.REBUILD_CLEAR: (COPIES, _OTHER_IMAGE),
    Rule.REBUILD_SNAPSHOT_LOCK: (COPIES, _OTHER_IMAGE),
    Rule.REBUILD_ATTEMPT: (COPIES, "a replaced attempt stores a copy"),
    Rule.REBUILD_ALONE: (REBUILDS_AND_DROPS, "a rebuild replaces a drop"),
    Rule.REBUILD_LAST_CORRECTION: (COPIES, _LACKS),
    Rule.REBUILD_EPOCH: (REBUILDS, "a file of the generation before is recorded in the rebuilt one"),
    Rule.REBUILD_WAIT: (REBUILDS, "the folder of another generation appears"),
}
"""Bounds in which omitting a rule does harm, and the first harm that is found."""

REDUNDANT: Final[dict[Rule, str]] = {
    Rule.LEASE: "epochs and revocation keep drains apart; a lease only prevents constant hand-overs",
    Rule.EPOCH_LOOK: "a drain that verifies under a stale epoch is stopped when it plans, records or quarantines",
    Rule.EPOCH_PLAN: "a plan by any drain extends the ledger's chain, and the next owner executes it",
    Rule.EPOCH_REGISTER: "a stale owner's temporary file is gone, and the next owner registers another",
    Rule.RECORD_IN_ORDER: "only the owner records, and the owner records in order",
    Rule.DROP_EPOCH: "the drain that executes the drop starts an epoch with its claim",
}
"""Why omitting a rule does no harm; the rule is kept as a second line of defense."""

RELYING_ON_FABRIC: Final[dict[Rule, str]] = {
    Rule.LAST_FILE: "it would stop healthy tables forever if mirroring removed all recorded files, also the last one",
}
