"""What other parts may import of filestore.commit."""

from lakelog.filestore.commit.batches import CHECKPOINT_CHANGED as CHECKPOINT_CHANGED
from lakelog.filestore.commit.batches import append_commit as append_commit
from lakelog.filestore.commit.batches import batch_properties as batch_properties
from lakelog.filestore.commit.batches import is_done as is_done
from lakelog.filestore.commit.batches import is_replay as is_replay
from lakelog.filestore.commit.commit import TableCommit as TableCommit
from lakelog.filestore.commit.conflicts import OvertakenError as OvertakenError
from lakelog.filestore.commit.outcomes import FoundCommit as FoundCommit
from lakelog.filestore.commit.outcomes import find_commit as find_commit
from lakelog.filestore.commit.requests import CommitRequest as CommitRequest
