"""The state of the model: the shared part (Postgres, landing zone, requests in flight) and the part of each drain."""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from tests.protocol.rules import Case

FOREIGN: Final = 0
"""Identity (ETag) of a table folder of another gateway; ours consist of epoch and generation."""

FOREIGN_CONTENT: Final = 99
"""The content of a file that another user put there; ours are `content_of` codes."""


class Mode(IntEnum):
    """`tables.state`, as far as publishing goes."""

    ACTIVE = 0
    QUARANTINED = 1
    DROPPING = 2
    REBUILDING = 3


DELETES_FOLDER: Final = frozenset({Mode.DROPPING, Mode.REBUILDING})


class Place(IntEnum):
    """A scratch path that is no folder."""

    ABSENT = 0
    PLAIN_FILE = 1


class Temp(NamedTuple):
    """A file in scratch; number 0 is the prepared table folder."""

    number: int
    attempt: int
    generation: int
    content: int
    whole: bool = True


Scratch: TypeAlias = Place | frozenset[Temp]


class Folder(NamedTuple):
    """The table folder. Files by number: content when visible, minus it when processed, 0 when there is none."""

    identity: int
    generation: int
    files: tuple[int, ...]
    landed: int = 0
    """The highest number that ever became visible here; only invariants read it."""
    through: int = 0
    """The last block that ever became visible here."""
    unsynced: int = 0
    """1: the last file's entry is not durable; 2: the folder's own entry is not."""


class Pc(IntEnum):
    """The next step of a drain."""

    CLAIM = 0
    REVOKE_LOOK = 1
    REVOKE_MOVE = 2
    REVOKE_MARK = 3
    READ = 4
    VERIFY = 5
    LOOK = 6
    PLAN = 7
    BUILD = 8
    FOLDER_LOOK = 9
    FOLDER_PREPARE = 10
    FOLDER_RENAME = 11
    FOLDER_CHECK = 12
    REGISTER = 13
    RENAME = 14
    SYNC = 15
    LOOK_AGAIN = 16
    RECORD = 17
    QUARANTINE = 18
    DROP_LOOK = 19
    DROP_DELETE = 20
    RECREATE = 21
    REVOKE_LOOK_AGAIN = 22


class Request(NamedTuple):
    """A storage call that may be executed after its caller has stopped waiting."""

    kind: Pc
    epoch: int
    number: int = 0
    attempt: int = 0
    seen: int = -1
    generation: int = 0
    content: int = 0


class Drain(NamedTuple):
    """What one drain process keeps in memory."""

    pc: Pc = Pc.CLAIM
    epoch: int = 0
    generation: int = 0
    older: int = 0
    """The epoch that is being revoked, and the step that follows when all are."""
    then: Pc = Pc.CLAIM
    number: int = 0
    last: int = 0
    """The last number of this round."""
    attempt: int = 0
    seen: int = -1
    """Identity of the folder that was looked at."""
    content: int = 0
    """Content chosen but not recorded, where the rules do not ask for that."""
    careless: bool = False
    """Whether it went on although the last recorded file was missing when it looked."""
    run: int = 0
    """The run of the database in which it claimed its epoch."""


IDLE: Final = Drain()


NO_IMAGE: Final = -1


class Phase(IntEnum):
    """The next step of an attempt to rebuild."""

    SNAPSHOT = 0
    CLEAR = 1
    COPY = 2
    CORRECT = 3
    SWITCH = 4


class Attempt(NamedTuple):
    """What the process that carries out an attempt keeps in memory."""

    number: int
    phase: Phase = Phase.SNAPSHOT
    snapshot: int = NO_IMAGE


class Copies(NamedTuple):
    """A rebuild before its switch, of one row: its images are numbers of changes."""

    is_due: bool = False
    attempt: int = 0
    changes: int = 0
    noted: int = NO_IMAGE
    """The image that the copy has, noted by the first change after the request or the snapshot."""
    copy: int = NO_IMAGE
    """The image in the next generation."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts that some process carries out."""


NO_COPIES: Final = Copies()


class Standby(NamedTuple):
    """What a standby has of the database; the primary's later transactions are lost if it takes over."""

    epoch: int
    lapsed: bool
    mode: Mode
    plan: tuple[int, ...]
    recorded: int
    registered: int


class Shared(NamedTuple):
    """The state that outlives a drain."""

    epoch: int = 0
    lapsed: bool = False
    mode: Mode = Mode.ACTIVE
    generation: int = 1
    plan: tuple[int, ...] = ()
    """Content by number, planned and recorded alike."""
    recorded: int = 0
    registered: int = 0
    """The epoch that registered a build for the number after the recorded ones."""
    folder: Folder | None = None
    deleted: Folder | None = None
    """The folder that was there before, as long as its deletion is not durable."""
    scratch: tuple[Scratch, ...] = ()
    """By epoch, from 1."""
    requests: tuple[Request, ...] = ()
    sealed: int = 0
    """Every epoch before this one has been revoked; only invariants read it."""
    drops: int = 0
    outside: int = 0
    """The number of changes that other users have made to the landing zone."""
    copies: Copies = NO_COPIES
    standby: Standby | None = None
    run: int = 0
    """The number of standbys that have taken over."""


class Move(NamedTuple):
    """A step of one drain, and what is wrong with it, if anything."""

    what: str
    shared: Shared
    drain: Drain
    violation: str = ""


class Event(NamedTuple):
    """Something that happens outside the drains."""

    what: str
    shared: Shared
    violation: str = ""
    kills: bool = False


def content_of(first: int, last: int) -> int:
    return first * 10 + last


def first_block(content: int) -> int:
    return content // 10


def last_block(content: int) -> int:
    return content % 10


def planned_through(shared: Shared) -> int:
    """Return the last block that is planned into a file."""
    return last_block(shared.plan[-1]) if shared.plan else 0


def published_through(shared: Shared) -> int:
    """Return the last block of the recorded files."""
    return last_block(shared.plan[shared.recorded - 1]) if shared.recorded else 0


def is_done(case: Case, shared: Shared) -> bool:
    """Return whether no drain has anything left to do, or only an operator can continue."""
    if shared.mode is Mode.QUARANTINED:
        return True
    if shared.mode in DELETES_FOLDER and shared.folder is not None:
        return shared.folder.identity == FOREIGN
    return shared.mode is Mode.ACTIVE and published_through(shared) == case.bounds.blocks


def doomed_generation(shared: Shared) -> int:
    """Return the generation whose folder is deleted: `app.domain.model.table:former_generation` after a switch."""
    return shared.generation - (shared.mode is Mode.REBUILDING)


def is_tampered(shared: Shared) -> bool:
    return shared.outside > 0


def numbers_beyond(shared: Shared) -> list[int]:
    """Return the numbers with a file, visible or consumed, that the ledger does not have."""
    files = shared.folder.files if shared.folder else ()
    return [number for number, found in enumerate(files, 1) if found and number > len(shared.plan)]


def scratch_of(shared: Shared, epoch: int) -> Scratch:
    return shared.scratch[epoch - 1]


def with_scratch(shared: Shared, epoch: int, scratch: Scratch) -> Shared:
    return shared._replace(scratch=(*shared.scratch[: epoch - 1], scratch, *shared.scratch[epoch:]))


def with_file(folder: Folder, number: int, content: int) -> Folder:
    return folder._replace(files=(*folder.files[: number - 1], content, *folder.files[number:]))


def file_at(shared: Shared, number: int) -> int:
    """Return the content of a number, as in `Folder.files`."""
    return shared.folder.files[number - 1] if shared.folder else 0
