"""Words of Delta, Iceberg, Hudi and Paimon that lakelog lacks, and what is meant by them here.

Source: Delta, "Table batch reads and writes" and "Table streaming reads and writes"; Iceberg, "Spark configuration";
Hudi, "All configurations"; Paimon, "CoreOptions" and "Spark SQL".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from lakelog.common.errors import OptionError, UnsupportedError
from lakelog.common.quoting import shown

_CHANGES = "changes are read by CHANGES FROM VERSION 3 TO VERSION 7, spark.read.changes or spark.readStream.changes"
_STREAM = "a stream begins where version, tag or timestamp says, or with the newest snapshot"
_STATE = "a state is named by snapshot_id, timestamp, tag, version or branch"
_RATE = "the size of a batch is bounded by maxRowsPerTrigger and maxBytesPerTrigger"
_KEY = "the primary key belongs to the table: PRIMARY KEY (id) in CREATE TABLE, or the property primary-key"
_DELETES = "a stream gives deletes where row-kind is true, and else leaves them out"
# By keys in lower case.
OPTIONS: dict[str, str] = {
    "startingversion": _CHANGES,
    "startingtimestamp": _CHANGES,
    "endingversion": _CHANGES,
    "endingtimestamp": _CHANGES,
    "readchangefeed": _CHANGES,
    "readchangedata": _CHANGES,
    "ignoredeletes": _DELETES,
    "ignorechanges": _DELETES,
    "skipchangecommits": _DELETES,
    "maxfilespertrigger": _RATE,
    "overwriteschema": "a table keeps its columns when it is overwritten: ALTER TABLE before",
    "start-snapshot-id": _CHANGES,
    "end-snapshot-id": _CHANGES,
    "snapshot-id": _STATE,
    "as-of-timestamp": _STATE,
    "as.of.instant": _STATE,
    "stream-from-timestamp": _STREAM,
    "streaming-skip-delete-snapshots": _DELETES,
    "streaming-skip-overwrite-snapshots": _DELETES,
    "streaming-max-rows-per-micro-batch": _RATE,
    "streaming-max-files-per-micro-batch": _RATE,
    "write-format": "the format of files is the table option file.format",
    "target-file-size-bytes": "the size of files is the table option target-file-size",
    "scan.mode": f"{_STREAM}; {_STATE}",
    "read.changelog": "the option row-kind adds the kind of a change as a column",
    "read.stream.maxrowspertrigger": _RATE,
    "read.stream.maxbytespertrigger": _RATE,
    "read.stream.maxfilespertrigger": _RATE,
    "write.merge-schema": "new columns are added by mergeSchema",
    "hoodie.datasource.query.type": f"{_STATE}; {_CHANGES}",
    "hoodie.datasource.read.begin.instanttime": _CHANGES,
    "hoodie.datasource.read.end.instanttime": _CHANGES,
    "hoodie.datasource.write.recordkey.field": _KEY,
    "hoodie.datasource.write.precombine.field": "the order of changes of a key is the table option sequence.field",
    "hoodie.datasource.write.partitionpath.field": "partitions belong to the table: PARTITIONED BY (day)",
    "hoodie.datasource.write.operation": "rows of a table with a primary key are upserts",
}
_SYS = "CALL lake.sys."
# How a statement begins, and what does the same in an attached warehouse.
STATEMENTS: tuple[tuple[str, str], ...] = (
    (r"DESC(RIBE)? HISTORY", "SELECT * FROM lake.db.`t$snapshots`"),
    (r"OPTIMIZE", f"{_SYS}compact(table => 'db.t')"),
    (r"VACUUM", f"{_SYS}expire_snapshots(table => 'db.t') and {_SYS}remove_orphan_files(table => 'db.t')"),
    (r"RESTORE", f"{_SYS}restore(table => 'db.t', version => '3')"),
    (r"ALTER TABLE \S+ CREATE (OR REPLACE )?TAG", f"{_SYS}create_tag(table => 'db.t', tag => 'friday')"),
    (r"ALTER TABLE \S+ REPLACE TAG", f"{_SYS}replace_tag(table => 'db.t', tag => 'friday')"),
    (r"ALTER TABLE \S+ RENAME TAG", f"{_SYS}rename_tag(table => 'db.t', tag => 'friday', target_tag => 'f')"),
    (r"ALTER TABLE \S+ DELETE TAG", f"{_SYS}delete_tag(table => 'db.t', tag => 'friday')"),
    (r"ALTER TABLE \S+ DROP TAG", f"{_SYS}delete_tag(table => 'db.t', tag => 'friday')"),
    (r"ALTER TABLE \S+ CREATE (OR REPLACE )?BRANCH", f"{_SYS}create_branch(table => 'db.t', branch => 'trial')"),
    (r"ALTER TABLE \S+ (DELETE|DROP) BRANCH", f"{_SYS}delete_branch(table => 'db.t', branch => 'trial')"),
    (r"SHOW TAGS", "SELECT * FROM lake.db.`t$tags`"),
    (r"SHOW BRANCHES", "SELECT * FROM lake.db.`t$branches`"),
)
_STATEMENTS = tuple(
    (re.compile(r"\s*" + words.replace(" ", r"\s+") + r"\b", re.IGNORECASE), hint) for words, hint in STATEMENTS
)


def check_options(given: Iterable[str], known: Collection[str]) -> None:
    """Raise OptionError for an option of another format that is not one of the known ones."""
    for key in given:
        meant = OPTIONS.get(key.lower())
        if meant is not None and key not in known:
            raise OptionError(f"unknown option {shown(key)}, a word of another table format; here {meant}")


def other_format(text: str) -> UnsupportedError | None:
    """The error for a statement of another format, which names what does the same here; None for an unknown one."""
    meant = meant_by_statement(text)
    if meant is None:
        return None
    return UnsupportedError(f"{shown(text)} is a statement of another table format; here: {meant}")


def meant_by_statement(text: str) -> str | None:
    """What does here what a statement of another format does; None for an unknown one."""
    return next((hint for words, hint in _STATEMENTS if words.match(text)), None)
