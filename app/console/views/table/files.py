"""The landing files of a table, the newest first, and one file with its batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.console.views.notice import NoticeView
from app.console.views.table.head import TableHead
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.staging.ledger.file_pages import FileBatch, FileLine

PAGE_FILES: Final = 50
PAGE_BATCHES: Final = 200
NEWEST: Final = FileNumber(2**63 - 1)
"""Every file number is smaller."""


@dataclass(frozen=True, slots=True)
class FilesView:
    """A page of files."""

    head: TableHead
    files: tuple[FileLine, ...]
    newer: str | None
    older: str | None
    notice: NoticeView | None = None


@dataclass(frozen=True, slots=True)
class FileView:
    """One file, with a page of its batches."""

    head: TableHead
    file: FileLine
    name: str
    link: str
    batches: tuple[FileBatch, ...]
    batches_total: int
    beginning: str | None
    """The address of the first page of batches, if this is a later one."""
    following: str | None
    can_repair: bool
    notice: NoticeView | None = None


def files_page(head: TableHead, found: Sequence[FileLine], last: int) -> FilesView:
    """Return a page of files; `last` is the greatest number of a file. Numbers have no gaps, so pages are computed."""
    link = f"{head.path}/files"
    newer = found[0].number + PAGE_FILES if found else 0
    return FilesView(
        head=head,
        files=tuple(found),
        newer=None if not found or found[0].number >= last else f"{link}?before={newer + 1}",
        older=f"{link}?before={found[-1].number}" if len(found) == PAGE_FILES and found[-1].number > 1 else None,
    )


def file_page(
    head: TableHead, file: FileLine, batches: Sequence[FileBatch], *, is_admin: bool, notice: NoticeView | None = None
) -> FileView:
    """Return one file with a page of its batches."""
    link = f"{head.path}/files/{file.number}"
    more = batches and batches[-1].sequence < file.last_sequence
    return FileView(
        head=head,
        file=file,
        name=file_name(file.number),
        link=link,
        batches=tuple(batches),
        batches_total=file.last_sequence - file.first_sequence + 1,
        beginning=link if batches and batches[0].sequence > file.first_sequence else None,
        following=f"{link}?after={batches[-1].sequence}" if more else None,
        can_repair=is_admin and file.state == "published" and not file.repair_requested,
        notice=notice,
    )
