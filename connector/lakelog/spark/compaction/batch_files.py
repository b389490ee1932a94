"""The data files of a batch, by bucket: what is due in a bucket depends on how many a batch adds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.filestore.metadata.manifests import BucketId
from lakelog.protocol.writing import BucketAnswer


@dataclass(frozen=True, slots=True)
class FilesOfBatch:
    """How many data files a snapshot takes in, and how many one batch adds to a bucket: what is due depends on that."""

    count: int
    by_bucket: Counter[BucketId]

    @classmethod
    def of(cls, answers: Iterable[BucketAnswer]) -> FilesOfBatch:
        """Those of all transactions, and of the largest one in each bucket."""
        count, largest = 0, Counter[BucketId]()
        for answer in answers:
            for header in answer.transactions:
                count += len(header.files)
                for bucket, added in Counter(file.bucket_id(answer.bucket) for file in header.files).items():
                    largest[bucket] = max(largest[bucket], added)
        return cls(count, largest)
