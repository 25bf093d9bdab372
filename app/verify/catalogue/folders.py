"""Findings about table folders, and about the names, number and pace of the files in them."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

FOLDERS: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.NUMBER_GAP: error(
        "A file number is missing between two others. Mirroring waits for it, and reads no later file.",
        "Publish the missing file under its number. If its content is lost, delete the folder, wait until the table is "
        "gone, and create it again with a full load.",
    ),
    FindingCode.FIRST_FILE_MISSING: warning(
        "The files do not begin at number 1, and there is no folder of consumed files that would explain it.",
        "Number the files of a table from 1. Nothing is to do if mirroring has consumed and purged the earlier ones.",
    ),
    FindingCode.NUMBER_REPEATED: error(
        "Two files have the same number: a number was used again, or two publishers write this table.",
        "Let one publisher own the numbers, and keep the next number in a database, not in a listing. Then create the "
        "table again with a full load: which of the files was read is not certain.",
    ),
    FindingCode.NUMBER_ZERO: error(
        "A file has number 0. Numbers begin at 1.",
        "Number the files from 00000000000000000001.",
    ),
    FindingCode.WRONG_DIGITS: error(
        "The name of a data file is a number that does not have exactly 20 digits.",
        "Name files by 20 digits with leading zeros, for example 00000000000000000001.parquet.",
    ),
    FindingCode.NAME_NOT_A_NUMBER: error(
        "A data file has a name that is no number, such as a GUID. Such files have no order: a delete can be applied "
        "before its insert.",
        "Name files by 20 digits, in the order in which Fabric must apply them.",
    ),
    FindingCode.WRONG_EXTENSION: error(
        "The extension of a numbered file is not that of the table's format.",
        "Use `.parquet` in lower case, or declare the format and `FileExtension` in `_metadata.json`.",
    ),
    FindingCode.FOREIGN_FILE: warning(
        "The table folder has a file that is neither data nor metadata.",
        "Delete it, or give it a name that starts with `_`: mirroring ignores such names.",
    ),
    FindingCode.SPECIAL_ENTRY: error(
        "An entry is neither a file nor a folder, but a link, FIFO, socket or device. OneLake has no such thing, and "
        "it was not opened.",
        "Replace it by the file itself.",
    ),
    FindingCode.FOLDER_INSTEAD_OF_FILE: error(
        "A folder has the name of a data file. Spark writes `<name>.parquet` as a folder of parts.",
        "Write one file, for example with PyArrow, or move the single part to the number.",
    ),
    FindingCode.PARTITION_FOLDER: error(
        "The table folder has partition folders (`Key=Value`), which open mirroring does not document.",
        "Write the files into the table folder itself, and the partition's value into a column.",
    ),
    FindingCode.FOREIGN_FOLDER: warning(
        "The table folder has a folder that mirroring does not read.",
        "Move data files into the table folder itself, and delete the folder.",
    ),
    FindingCode.NO_DATA: advice(
        "The table has metadata and no data file yet. After about two weeks, mirroring fails such a table.",
        "Publish a Parquet file with the table's columns and no row as file 1.",
    ),
    FindingCode.NO_DATA_FOR_TWO_WEEKS: error(
        "For two weeks the table has had metadata and no data. Mirroring fails it and can pause the whole database.",
        "Publish a Parquet file with the table's columns and no row as file 1, or delete the folder.",
    ),
    FindingCode.TOO_MANY_FILES_PER_SECOND: advice(
        "Files were published faster than one table absorbs: tests measured 0.4 to 0.8 files a second.",
        "Write larger files less often.",
    ),
    FindingCode.MANY_TINY_FILES: advice(
        "The table has many files of little content. Each costs requests, which count against the capacity.",
        "Collect changes for some seconds, and write fewer and larger files.",
    ),
}
