"""One run of `mirrorgate send`: which files are sent, in which order, and where a producer continues.

A producer's position at the gateway names the last file of which something is durable, and how far. Files before it in
the order of the command were sent; the file itself continues in its middle, if what was sent of it is unchanged.
Nothing is kept on this machine.

A load session is found again by its id, a hash of its table and paths, then one of the files' states and of the load
before it. The same command continues it and sends all rows again: each request has an idempotency key made of the load,
its place and its body, so those that were cut alike are recognized. Others are upserts of the same values in the same
order.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from mirrorgate.arrow_rows import Columns
from mirrorgate.chunking.chunks import Chunk, Limits
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.errors.store_faults import without_queries
from mirrorgate.file_content import Mark, digest_of, stored_mark
from mirrorgate.file_paths import FileNames, name_of
from mirrorgate.folder import FileBlocks, FolderStore, Found, ObjectGone
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.loads import Load, Mode, TableRegistration
from mirrorgate.object_store import ObjectStore, folder_path, is_folder, open_store, without_folders
from mirrorgate.parameters import table_path
from mirrorgate.producer import ChangeRequest, NumberedRequests, Patience, opened_numbers
from mirrorgate.send.progress import Progress, ProgressDisplay
from mirrorgate.send.sender import Sender, SendFailed
from mirrorgate.source import Source

_FIRST: Final = UUID("6e1ad2e0-8a53-4c60-9a1c-5f5c3b1c7c11")
"""In place of the load before, where there is none."""
_OF_PATHS: Final = 18
"""Characters of a load's id that name its table and paths, which are the first half of it."""


class LoadRun:
    """The load of files into one table. It names the requests of the load for the sender."""

    def __init__(self, client: GatewayClient, table: str, mode: Mode, patience: Patience) -> None:
        self.status: Mapping[str, Any] = {}
        """The load as the gateway described it last."""
        self.file = 0
        """The place among the files of the one that is sent."""
        self._client, self._table, self._mode, self._patience = client, table, mode, patience
        self._load = Load(client, table, "", patience)

    def start(self, files: Sequence[Found] | None) -> bool:
        """Begin the load of files, or continue the one that is open; return whether it takes rows.

        An open load of the same paths and of other content is of a run that died: it is aborted. `files` is None for a
        stream, whose load is never continued. Raises RejectedByGateway, with `load_open` for another open load.
        """
        listed = self._patience.call(lambda: self._client.get(f"{table_path(self._table)}/loads"))["loads"]
        states = {load["load"]: load["state"] for load in listed}
        ended = next((load for load, state in states.items() if state not in ("open", "completing")), None)
        current = next((load for load, state in states.items() if state in ("open", "completing")), None)
        self._load = self._load_of(files, ended)
        if current not in (None, self._load.load_id) and current[:_OF_PATHS] == self._load.load_id[:_OF_PATHS]:
            Load(self._client, self._table, current, self._patience).abort()
            self._load = self._load_of(files, current)
        if states.get(self._load.load_id) == "completing":
            return False
        try:
            Load.begin(self._client, self._table, self._mode, load_id=self._load.load_id, patience=self._patience)
        except RejectedByGateway as error:
            if error.code is Code.LOAD_OPEN:
                command = f"mirrorgate tables abort-load {self._table} {current or ''}".rstrip()
                error.remedy = f"Wait until its program has completed it. If that has died, end it with `{command}`."
            raise
        return True

    def _load_of(self, files: Sequence[Found] | None, ended: str | None) -> Load:
        """Return the load of files after one that has ended. The beginning of its id is that of the paths."""
        load_id = str(uuid4())
        if files is not None:
            of_paths = uuid5(_FIRST, " ".join([self._table, *(file.key for file in files)]))
            state = " ".join([self._mode, *(f"{file.key} {file.etag}" for file in files)])
            of_state = uuid5(_FIRST if ended is None else UUID(ended), state)
            load_id = str(of_paths)[:_OF_PATHS] + str(of_state)[_OF_PATHS:]
        return Load(self._client, self._table, load_id, self._patience)

    def position_of(self, chunk: Chunk, content: str, is_last: bool) -> str:
        """Return where the request begins in the files, which tells equal chunks apart."""
        return f"{self.file} {chunk.first}"

    def headers(self, request: ChangeRequest) -> Mapping[str, str]:
        """Return the headers that name the next request."""
        key = uuid5(UUID(self._load.load_id), f"{request.position} {sha256(request.body).hexdigest()}")
        return {**self._load.headers, "Idempotency-Key": key.hex}

    def accepted(self, request: ChangeRequest) -> None:
        """Do nothing: after a crash, all rows are sent again."""

    def meaning_of(self, error: RejectedByGateway) -> MirrorgateError:
        """Return the error itself."""
        return error

    def complete(self) -> None:
        """Complete the load. After a crash, the next run of the same command completes it."""
        self.status = self._load.complete(self._note)

    def abort(self) -> None:
        """End the load without deletes."""
        self.status = self._load.abort()

    def _note(self, status: Mapping[str, Any]) -> None:
        self.status = status


STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file or object of a run. The key of `found` is its full path or address, by which a position names it."""

    name: str
    """The path or address as it was given."""
    found: Found
    store: ObjectStore | None
    """The store that has it, None for standard input or a pipe, which has neither a size nor a time."""
    key: str = ""
    """The key in its store."""
    folder: str | None = None
    """The full path or address of the given folder that the file is in, with a slash at its end."""

    @property
    def is_stream(self) -> bool:
        """True for standard input or a pipe."""
        return self.store is None

    def is_of(self, mark: Mark) -> bool:
        """Return whether a mark is in this file."""
        return mark.is_of(self.found.key)


class NumberedFiles(NumberedRequests):
    """Numbers of a producer's requests, each with the position in the files that it reaches."""

    def __init__(self, numbers: NumberedRequests) -> None:
        super().__init__(numbers.name, numbers.sequence, numbers.position)
        self.mark = stored_mark(numbers.name, numbers.sequence, numbers.position)
        """Position up to which the files are durable."""
        self._file = Found("", 0, "", 0)
        self._reached: Mark | None = None

    def start(self, file: Found) -> None:
        """Note which file the next requests are of."""
        self._file = file

    def position_of(self, chunk: Chunk, content: str, is_last: bool) -> str:
        """Return the position that a request with this chunk reaches; behind the last one, the file is sent."""
        file = self._file
        newest = max(file.modified, 0 if self.mark is None else self.mark.newest)
        mark = Mark(file.key, digest_of(file.etag), newest)
        if not is_last:
            mark = replace(mark, next_message=chunk.after, end=chunk.end, content=content)
        self._reached = mark
        return mark.encoded()

    def accepted(self, request: ChangeRequest) -> None:
        """Note that the request is durable."""
        super().accepted(request)
        self.mark = self._reached


@dataclass
class SendJob:
    """Job that sends files. `progress` and `producer` remain readable after every end of the run."""

    source: Source
    limits: Limits
    give_up_after: float
    """Seconds to retry a request that the gateway cannot accept yet."""
    display: ProgressDisplay
    progress: Progress = field(default_factory=Progress)
    producer: NumberedFiles | None = None
    loaded: LoadRun | None = None
    """The load session of the run."""
    registration: TableRegistration | None = None

    def send(self, client: GatewayClient, files: Sequence[GivenFile], skip: int, producer: str | None = None) -> None:
        """Send files, the first one without its first `skip` messages.

        With a producer, only what is not durable yet. Raises SendFailed, RejectedInput and Misconfigured.
        """
        sender = self._sender(client)
        if producer is not None:
            with self._gateway_errors():
                self.producer = NumberedFiles(opened_numbers(client, producer, self._patience))
            sender.names, sender.position_of = self.producer, self.producer.position_of
        unsent = files_after(files, None if self.producer is None else self.producer.mark)
        if len(unsent) < len(files):
            skipped = f"{len(files) - len(unsent):,} files were" if len(files) > 1 else f"{files[0].name} was"
            self.display.print(f"{skipped} sent completely before")
        for number, file in enumerate(unsent, 1):
            try:
                self._send(sender, file, skip, len(unsent) - number)
            except SendFailed as error:
                if len(files) > 1:
                    error.detail = f"{file.name}: {error.detail}"
                    if self.producer is None and number < len(unsent):
                        error.remedy += " Then send the files after it."
                raise
            if len(files) > 1:
                self.display.print(f"{file.name}: sent completely, {self.progress.next_message:,} messages")

    def load(self, client: GatewayClient, files: Sequence[GivenFile], mode: Mode) -> None:
        """Send files as a load session of the source's table, and complete it. Raises SendFailed or RejectedInput.

        A load whose rows are rejected is aborted, because the corrected file needs a new load.
        """
        assert self.source.table is not None
        sender = self._sender(client, keeps_images=True)
        if self.registration is not None and files and not files[0].is_stream:
            with opened(files[0]) as (_, blocks):  # a load needs its table
                next(sender.cutter.chunks(blocks, Limits(1, 1), 0), None)
        self.loaded = run = LoadRun(client, self.source.table, mode, self._patience)
        sender.names, sender.position_of = run, run.position_of
        with self._gateway_errors():
            takes_rows = run.start(None if any(file.is_stream for file in files) else [file.found for file in files])
        try:
            for number, file in enumerate(files if takes_rows else ()):
                run.file = number
                self._send(sender, file, 0, len(files) - number - 1)
            if takes_rows and not self.progress.requests and not self.progress.repeated:
                raise RejectedInput(Code.EMPTY_REQUEST, "the files hold no row")
        except (SendFailed, RejectedInput) as error:
            if not isinstance(error, SendFailed) or not error.gave_up:
                with suppress(MirrorgateError):
                    run.abort()
            raise
        with self._gateway_errors():
            run.complete()

    @property
    def _patience(self) -> Patience:
        return Patience(self.give_up_after, on_wait=self.display.show_retry)

    def _sender(self, client: GatewayClient, *, keeps_images: bool = False) -> Sender:
        display = self.display
        if self.source.registers:
            self.registration = TableRegistration(
                client,
                str(self.source.table),
                self.source.key_columns,
                self._patience,
                keeps_images,
                self.source.parameters.get("op") == "insert",
            )
        return Sender(
            display.deferring_interrupts(self.source.poster(client, self._added)),
            self.source.cutter(self._prepare),
            self._patience.give_up_after,
            time.sleep,
            display.show_accepted,
            display.show_retry,
            progress=self.progress,
        )

    def _prepare(self, columns: Columns) -> Collection[str]:
        if self.registration is None:
            return ()
        with self._gateway_errors():
            return self.registration.prepare(columns)

    def _added(self) -> Mapping[str, str]:
        return {} if self.registration is None else self.registration.parameters

    def _send(self, sender: Sender, file: GivenFile, skip: int, files_left: int) -> None:
        """Send what is left of a file. Raises SendFailed, and RejectedInput if it changes meanwhile."""
        mark = None
        with opened(file) as (present, blocks):
            if self.producer is not None:
                mark = self.producer.mark
                mark = mark if mark is not None and mark.next_message is not None and file.is_of(mark) else None
                if mark is not None and skip:
                    detail = f"the messages of {file.name} before {mark.next_message} were sent already"
                    remedy = "Leave --from-message out: the command continues where it ended."
                    raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
                self.producer.start(present)
            self.display.start_file(name_of(file.name), None if file.is_stream else present.size, files_left)
            may_be_empty = file.folder is not None or mark is not None
            sender.send(self._counted(blocks), self.limits, skip, mark, may_be_empty=may_be_empty)
            if isinstance(blocks, FileBlocks) and blocks.is_changed:
                remedy = "Send only complete files. Send the content that was added since as a new file."
                raise RejectedInput(Code.BAD_REQUEST, f"{file.name} was changed after it was read", remedy=remedy)

    def _counted(self, blocks: Iterable[bytes]) -> Iterable[bytes]:
        """Return the blocks, of which the display shows how many bytes are read."""
        if isinstance(blocks, FileBlocks):
            blocks.on_read = self.display.add_read
            return blocks
        return self._counting(blocks)

    def _counting(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.display.add_read(len(block))
            yield block

    @contextmanager
    def _gateway_errors(self) -> Iterator[None]:
        """Turn the errors of calls besides the requests with changes into SendFailed, which has the exit status."""
        try:
            yield
        except (RejectedByGateway, TemporarilyUnavailable) as error:
            raise SendFailed(error, error.detail, remedy=error.remedy, errors=[]) from error


def given_files(sources: Sequence[str], options: Mapping[str, str]) -> list[GivenFile]:
    """Return the files to send, each once: those given, and in place of a folder its files in the order of their paths.

    A source is a path, an address of object storage, or `-`. An address that ends with a slash is a folder; `options`
    are those of object storage. Raises RejectedInput for an object that does not exist, Misconfigured and
    TemporarilyUnavailable for a folder or store that cannot be read.
    """
    files: list[GivenFile] = []
    for source in sources:
        if not is_folder(source):
            files += _objects(source, options)
            continue
        source = folder_path(source)
        if source != STANDARD_INPUT and Path(source).is_dir():
            files += _below(FolderStore(Path(source)), f"{source.rstrip('/')}/", f"{Path(source).resolve()}/")
        elif source != STANDARD_INPUT and Path(source).is_file():
            path = Path(source).resolve()
            store = FolderStore(path.parent)
            files.append(GivenFile(source, replace(store.found(path.name), key=str(path)), store, path.name))
        else:
            files.append(GivenFile(source, Found(STANDARD_INPUT, 0, "", 0), None))
    once: dict[str, GivenFile] = {}
    for file in files:  # one that is given again, such as beside its folder, would be sent by every run
        once.setdefault(file.name if file.is_stream else file.found.key, file)
    return [*once.values()]


def _objects(address: str, options: Mapping[str, str]) -> list[GivenFile]:
    """Return the objects of an address, which its query may give access to."""
    url, mark, query = address.partition("?")
    folder, _, key = url.rpartition("/")
    if folder.endswith("/"):  # a bucket without a slash at its end
        folder, key = url, ""
    store = open_store(f"{folder}{mark}{query}", options)
    folder, url = without_queries(folder), without_queries(url)
    if not key:
        return _below(store, f"{folder}/", f"{folder}/")
    try:
        return [GivenFile(url, replace(store.found(key), key=url), store, key)]
    except ObjectGone as error:
        remedy = "Correct the address. For all objects below it, end it with a slash."
        raise RejectedInput(Code.BAD_REQUEST, f"{url} does not exist", remedy=remedy) from error


def _below(store: ObjectStore, name: str, folder: str) -> list[GivenFile]:
    """Return the files of a folder, which is named and found by these prefixes."""
    names = FileNames()
    listed = sorted(without_folders([*store.objects()]), key=lambda found: found.key)
    return [
        GivenFile(name + found.key, replace(found, key=folder + found.key), store, found.key, folder)
        for found in listed
        if names.holds_changes(found.key)
    ]


def files_after(files: Sequence[GivenFile], mark: Mark | None) -> Sequence[GivenFile]:
    """Return the files that are not sent completely, in their order, by the position of a producer.

    Raises RejectedInput if that cannot be told, or a file has changed since it was sent.
    """
    if mark is None:
        return files
    at = next((place for place, file in enumerate(files) if file.is_of(mark)), None)
    if at is None:
        return _after_absent(files, mark)
    if files[at].is_stream:
        return files[at:]
    _check_not_late(files[:at], mark)
    if mark.next_message is not None:
        return files[at:]
    if digest_of(files[at].found.etag) != mark.etag:
        remedy = "Send a file when it is complete. Send the content that was added to it as a new file."
        raise RejectedInput(
            Code.BAD_REQUEST, f"{files[at].name} was sent completely and has changed since", remedy=remedy
        )
    return files[at + 1 :]


def _after_absent(files: Sequence[GivenFile], mark: Mark) -> Sequence[GivenFile]:
    """Return the files to send if none is the one that was sent last.

    Those of a given folder that it was in, and that sort before it, were sent. Whether a single file that sorts before
    it was sent or never given cannot be told, so it is rejected.
    """
    if mark.next_message is not None and mark.key != STANDARD_INPUT and _may_exist(mark, files):
        detail = f"{mark.key} is only partly sent and must be completed first"
        remedy = "Send it with the same --producer, or move it out of the folder to skip the rest of it."
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
    before = [file for file in files if not file.is_stream and file.found.key < mark.key]
    for file in before:
        if file.folder is None and mark.key.startswith(f"{file.found.key.rpartition('/')[0]}/"):
            detail = f"{file.name} sorts before {mark.key}, which was sent last: it was sent already, or left out"
            remedy = "Leave it out, or give all files in one command. If it is new, rename it so that it sorts after."
            raise RejectedInput(Code.SOURCE_ORDER_UNSAFE, detail, remedy=remedy)
    sent = [file for file in before if file.folder and mark.key.startswith(file.folder)]
    _check_not_late(sent, mark)
    return [file for file in files if file not in sent]


def _may_exist(mark: Mark, files: Sequence[GivenFile]) -> bool:
    """Return whether a partly sent file may still be there; none of the given files is it.

    One whose name is too long to be kept is not looked for.
    """
    if mark.key_hash is not None:
        return True
    if is_folder(mark.key):
        return Path(mark.key).exists()
    return not any(file.folder is not None and mark.key.startswith(file.folder) for file in files)


def _check_not_late(sent: Sequence[GivenFile], mark: Mark) -> None:
    late = [file for file in sent if not file.is_stream and file.found.modified > mark.newest]
    if late:
        detail = f"{len(late)} files before the one that was sent last are newer than it, the first is {late[0].name}"
        remedy = "Rename new files so that they sort after it. Restore or move away files that have changed."
        raise RejectedInput(Code.SOURCE_ORDER_UNSAFE, detail, remedy=remedy)


@contextmanager
def opened(file: GivenFile) -> Iterator[tuple[Found, Iterable[bytes]]]:
    """Open a file as it is now; standard input stays open.

    Raises RejectedInput if it is gone or denied, and SendFailed for a store that does not answer.
    """
    if file.store is None:
        is_input = file.name == STANDARD_INPUT
        with open(0 if is_input else file.name, "rb", closefd=not is_input, buffering=0) as stream:
            yield file.found, iter(FileBlocks(stream))
        return
    try:
        with file.store.reading(file.key) as (etag, blocks):
            present = file.found
            if etag != present.etag:  # it was written again since the listing
                present = replace(file.store.found(file.key), key=present.key, etag=etag)
            yield present, blocks
    except ObjectGone as error:
        detail = f"{file.name} cannot be read: it is gone"
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Run the same command again.") from error
    except (Misconfigured, TemporarilyUnavailable) as error:
        if error.code not in (Code.SOURCE_REJECTED, Code.SOURCE_UNAVAILABLE):
            raise
        detail, remedy = f"{file.name} cannot be read: {error.detail}", "Run the same command again."
        if isinstance(error, Misconfigured):
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy) from error
        raise SendFailed(error, detail, remedy=remedy, errors=[]) from error
