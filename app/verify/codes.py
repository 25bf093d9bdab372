"""The closed set of codes that `mirrorgate verify` reports. Scripts rely on them: a code is never renamed."""

from enum import StrEnum


class FindingCode(StrEnum):
    """What a finding is about; `catalogue` has the severity, meaning and remedy of each code."""

    # The zone
    PARTNER_EVENTS_MISSING = "partner_events_missing"
    PARTNER_EVENTS_DAMAGED = "partner_events_damaged"
    FILE_OUTSIDE_TABLE = "file_outside_table"
    TOO_MANY_TABLES = "too_many_tables"
    TABLE_NAMES_DIFFER_IN_CASE = "table_names_differ_in_case"
    EMPTY_SCHEMA_FOLDER = "empty_schema_folder"
    OLD_HIDDEN_FILES = "old_hidden_files"
    CANNOT_READ = "cannot_read"
    NOT_CHECKED = "not_checked"
    CHECK_FAILED = "check_failed"

    # Folders and names
    NUMBER_GAP = "number_gap"
    FIRST_FILE_MISSING = "first_file_missing"
    NUMBER_REPEATED = "number_repeated"
    NUMBER_ZERO = "number_zero"
    WRONG_DIGITS = "wrong_digits"
    NAME_NOT_A_NUMBER = "name_not_a_number"
    WRONG_EXTENSION = "wrong_extension"
    FOREIGN_FILE = "foreign_file"
    SPECIAL_ENTRY = "special_entry"
    FOLDER_INSTEAD_OF_FILE = "folder_instead_of_file"
    PARTITION_FOLDER = "partition_folder"
    FOREIGN_FOLDER = "foreign_folder"
    NO_DATA = "no_data"
    NO_DATA_FOR_TWO_WEEKS = "no_data_for_two_weeks"
    TOO_MANY_FILES_PER_SECOND = "too_many_files_per_second"
    MANY_TINY_FILES = "many_tiny_files"

    # Metadata
    METADATA_MISSING = "metadata_missing"
    METADATA_DAMAGED = "metadata_damaged"
    METADATA_AFTER_DATA = "metadata_after_data"
    UNKNOWN_METADATA_KEY = "unknown_metadata_key"
    WITHDRAWN_METADATA_KEY = "withdrawn_metadata_key"
    KEY_NOT_A_COLUMN = "key_not_a_column"
    KEY_DIFFERS_IN_CASE = "key_differs_in_case"
    TOO_MANY_KEYS = "too_many_keys"
    UNKNOWN_DETECTION = "unknown_detection"
    ORDERED_BY_TIME = "ordered_by_time"
    TIME_TIES = "time_ties"
    PARTITIONS_ENABLED = "partitions_enabled"
    UNKNOWN_FILE_FORMAT = "unknown_file_format"
    TEXT_WITHOUT_EXTENSION = "text_without_extension"
    TEXT_WITHOUT_HEADER = "text_without_header"
    TEXT_WITHOUT_TYPES = "text_without_types"

    # Data files
    ZERO_BYTE_FILE = "zero_byte_file"
    TRUNCATED_FILE = "truncated_file"
    NOT_PARQUET = "not_parquet"
    ENCRYPTED_FILE = "encrypted_file"
    DAMAGED_FOOTER = "damaged_footer"
    DAMAGED_TEXT = "damaged_text"
    UNSUPPORTED_COMPRESSION = "unsupported_compression"
    SMALL_ROW_GROUPS = "small_row_groups"
    LARGE_ROW_GROUP = "large_row_group"
    LARGE_CELL = "large_cell"

    # Columns
    NO_COLUMNS = "no_columns"
    MARKER_NOT_LAST = "marker_not_last"
    MARKER_TYPE = "marker_type"
    MARKER_CASE = "marker_case"
    MARKER_MISSPELLED = "marker_misspelled"
    COLUMNS_DIFFER_IN_CASE = "columns_differ_in_case"
    COLUMN_CASE_CHANGED = "column_case_changed"
    BLANK_COLUMN_NAME = "blank_column_name"
    UNSUPPORTED_TYPE = "unsupported_type"
    DOUBTFUL_TYPE = "doubtful_type"
    TYPE_CHANGED = "type_changed"
    REQUIRED_COLUMN_MISSING = "required_column_missing"
    NEW_REQUIRED_COLUMN = "new_required_column"
    COLUMN_MISSING = "column_missing"
    BARE_FILES_FASTER = "bare_files_faster"

    # Rows and keys

    # Comparison
