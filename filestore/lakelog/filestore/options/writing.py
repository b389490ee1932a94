"""Options of write buffers and commits."""

from __future__ import annotations

from lakelog.common.options import (
    Option,
    at_least_two,
    not_negative,
    parse_bool,
    parse_duration_millis,
    parse_size_bytes,
    parse_whole,
)

WRITE_BUFFER_SIZE = Option(
    key="write-buffer-size",
    parse=parse_size_bytes,
    default=256 << 20,
    doc="Memory for the rows of one writing task of a table without a log; sorting them takes as much again. More rows "
    "are spilled, or go to another level-0 file.",
)
WRITE_BUFFER_SPILLABLE = Option(
    key="write-buffer-spillable",
    parse=parse_bool,
    default=True,
    doc="Whether full write buffers of a table with a primary key are sorted, spilled to the folder for temporary "
    "files (`TMPDIR`) and merged at the end of the task; else each goes to level-0 files of its own.",
)
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = Option(
    key="write-buffer-spill.max-disk-size",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of spilled rows of one task at which they go to level-0 files of their own; without a limit by default.",
)
LOCAL_SORT_MAX_NUM_FILE_HANDLES = Option(
    key="local-sort.max-num-file-handles",
    parse=at_least_two,
    default=128,
    doc="Spilled files of one task at which they are merged into one.",
)
SPILL_COMPRESSION = Option(
    key="spill-compression",
    parse=str,
    default="zstd",
    doc="The compression of spilled rows: `zstd`, `lz4` or `none`.",
)
SPILL_COMPRESSION_ZSTD_LEVEL = Option(
    key="spill-compression.zstd-level",
    parse=parse_whole,
    default=1,
    doc="The level of zstd in spilled rows.",
)
WRITE_ONLY = Option(
    key="write-only",
    parse=parse_bool,
    default=False,
    doc="Whether writers leave compaction and expiry to another process.",
    older_keys=("write.compaction-skip",),
)
COMMIT_MAX_RETRIES = Option(
    key="commit.max-retries",
    parse=not_negative,
    default=None,
    doc="How often a commit that lost a race is tried again; as long as commit.timeout allows by default.",
)
COMMIT_TIMEOUT = Option(
    key="commit.timeout",
    parse=parse_duration_millis,
    default=600_000,
    doc="How long a commit that loses races is tried again.",
)
COMMIT_MIN_RETRY_WAIT = Option(
    key="commit.min-retry-wait",
    parse=parse_duration_millis,
    default=10,
    doc="The longest wait before the first retry of a commit; it doubles with each lost race, shortened at random.",
)
COMMIT_MAX_RETRY_WAIT = Option(
    key="commit.max-retry-wait",
    parse=parse_duration_millis,
    default=10_000,
    doc="The longest wait between retries of a commit.",
)
LINEAGE_CAPTURE = Option(
    key="lineage.capture",
    parse=parse_bool,
    default=True,
    doc="Whether each commit of lakelog records in its snapshot which job made it, from which snapshots of which "
    "tables. What is made from a table whose commits record nothing has no lineage beyond it. An option of lakelog.",
)
LINEAGE_FIELDS = Option(
    key="lineage.fields",
    parse=parse_bool,
    default=True,
    doc="Whether each commit of lakelog that records its lineage also records from which columns each column is made. "
    "The record is written once for each program, into the folder of the table. An option of lakelog.",
)
LINEAGE_FIELDS_RETAINED = Option(
    key="lineage.fields.retained",
    parse=parse_duration_millis,
    default=30 * 24 * 3_600_000,
    doc="How old a record of the lineage of columns has to be before the removal of orphan files deletes it, once no "
    "snapshot, tag or branch names it: the log of a table may name it for longer. An option of lakelog.",
)
