"""What is due after a snapshot of many batches: as after a snapshot for each."""

from __future__ import annotations

from collections import Counter

from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.spark.compaction.batch_files import FilesOfBatch
from tests.support.files.data_files import plain_file

NO_PARTITION = b"\0\0\0\0"


def header(number: int, files: int) -> CommitHeader:
    return CommitHeader(
        table_uuid="t", user="a", identifier=number, source_digest=None, schema_id=0, base_snapshot_id=0,
        record_count=1, size_bytes=1,
        files=tuple(BucketFile(partition=NO_PARTITION, meta=plain_file(f"{number}-{at}")) for at in range(files)),
    )  # fmt: skip


def test_the_files_of_one_batch_count_and_not_those_of_all_that_waited() -> None:
    """A bucket of 375 batches had a compaction due at 375 times as many files as one with a snapshot for each."""
    many = tuple(header(number, 1) for number in range(375))
    answers = [
        BucketAnswer(bucket=0, base=0, end=375, leader_epoch=None, transactions=many, has_fenced=True),
        BucketAnswer(
            bucket=1, base=0, end=3, leader_epoch=None, transactions=(header(0, 2), header(1, 3)), has_fenced=True
        ),
    ]
    found = FilesOfBatch.of(answers)
    assert found.count == 380
    assert found.by_bucket == Counter({BucketId(NO_PARTITION, 0): 1, BucketId(NO_PARTITION, 1): 3})
