"""What users and other parts import of `lakelog.spark`."""

from lakelog.filestore.metadata.snapshots import CommitListener as CommitListener
from lakelog.spark.attaching import attach as attach
from lakelog.spark.attaching import detach as detach
from lakelog.spark.capture.declared_inputs import declare_inputs as declare_inputs
from lakelog.spark.compaction.compaction_job import compact as compact
from lakelog.spark.data_source import register as register
from lakelog.spark.failures import error_of as error_of
from lakelog.spark.ingesting.ingest import ingest as ingest
from lakelog.spark.replay import replay_dead_letters as replay_dead_letters
from lakelog.spark.sink.bucketing import bucket_column as bucket_column
from lakelog.spark.sink.commits import progress_with_commits as progress_with_commits
from lakelog.spark.sink.sink import LakelogSink as LakelogSink
from lakelog.spark.sink.sink import write_stream as write_stream
from lakelog.spark.sink.write import write as write
from lakelog.spark.source.batch.consistent_read import consistent_read as consistent_read
from lakelog.spark.source.batch.group_streams import read_streams as read_streams
from lakelog.spark.source.batch.read import read as read
from lakelog.spark.statements.frame_merge import merge as merge
