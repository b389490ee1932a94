"""The identity of a micro-batch: Spark's names become the commit user, the commit identifier and the source digest.

| lakelog | Spark |
|---|---|
| commit user | query id: in `<checkpoint>/metadata`, stable over restarts, new with a new checkpoint |
| commit identifier | batch id |
| source digest | hash of the batch's source lines in `<checkpoint>/offsets/<batch id>`, written before the batch runs |
| | of file sources, which number what they read: the files, too, by `<checkpoint>/sources` |
| | where the user is named by `commit_user`, a hash of the query id: other sources that number what they read |
| watermark | `batchWatermarkMs` in `<checkpoint>/offsets/<batch id>`: `eventTime.watermark` of the batch's progress |

On Spark Connect a foreachBatch function sees none of these: the user must name the writer (`commit_user`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any  # Any: py4j gives Java objects without types

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame

from lakelog.common.errors import InvalidRequestError
from lakelog.spark.capture.capture import RunningBatch
from lakelog.spark.capture.checkpoint import files_of_batch, parse_offset_log, parse_watermark
from lakelog.spark.sink.checkpoint_folders import HadoopFolder, LocalFolder, checkpoint_folder, jvm_of, read_text

QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A micro-batch of a streaming query.

    `run` is Spark's id of this run of the query, and `running` knows the sources; both are None on Spark Connect.
    `watermark_millis` is the event-time watermark in force, None without one and on Spark Connect.
    """

    user: str
    identifier: int
    run: str | None
    source_digest: str | None
    running: RunningBatch | None = field(default=None, repr=False)
    watermark_millis: int | None = None
    checkpoint: LocalFolder | HadoopFolder | None = field(default=None, repr=False)


def identify_batch(
    batch: DataFrame, batch_id: int, *, writer_name: str | None = None, commit_user: str | None = None
) -> MicroBatch:
    """Identify the micro-batch that a foreachBatch function was called with. Reads the checkpoint's offset log.

    `writer_name` distinguishes several writes of one query to one table. Raises InvalidRequestError outside of a
    foreachBatch function, and for a query without a checkpoint location.
    """
    try:
        context = batch.sparkSession.sparkContext
    except PySparkAttributeError:
        return MicroBatch(
            user=_named(_connect_user(commit_user), writer_name), identifier=batch_id, run=None, source_digest=None
        )
    query_id = context.getLocalProperty(QUERY_ID)
    execution = _running_query(batch, query_id)
    if query_id is None or execution is None:
        raise InvalidRequestError(
            "a LakelogSink writes the micro-batches of a streaming query: pass it to writeStream.foreachBatch, "
            "or call it inside of such a function with the DataFrame and the batch id given there"
        )
    checkpoint: str = execution.resolvedCheckpointRoot()
    if _is_temporary(execution):
        raise no_checkpoint()
    path = f"{checkpoint}/offsets/{batch_id}"
    folder = checkpoint_folder(batch.sparkSession, checkpoint)
    text = read_text(batch.sparkSession, path)
    lines = parse_offset_log(text, path=path)
    files = files_of_batch(batch_id, lines, folder.find_text)
    return MicroBatch(
        user=_named(commit_user or query_id, writer_name),
        identifier=batch_id,
        run=execution.runId().toString(),
        source_digest=digest_of(lines, query_id=None if commit_user is None else query_id, files=files),
        running=RunningBatch(
            execution=execution,
            batch_id=batch_id,
            ends=lines,
            read_before=partial(folder.find_text, f"offsets/{batch_id - 1}"),
        ),
        watermark_millis=parse_watermark(text, path=path),
        checkpoint=folder,
    )


def no_checkpoint() -> InvalidRequestError:
    """The error of a query whose checkpoint Spark deletes at its end."""
    return InvalidRequestError(
        "the query has no checkpoint location: Spark would make a new query id at every start, and a batch that is run "
        "again could not be distinguished from a new one. Give checkpoint_location, or the option checkpointLocation"
    )


def digest_of(source_lines: Sequence[str], *, query_id: str | None = None, files: Sequence[str] | None = None) -> str:
    """A digest of a batch's source offsets: equal for a replay, different for other data under the same batch id.

    With `query_id` it has a second part, see `filestore.metadata.users.is_same_source`: in a new checkpoint equal
    numbers of a source may stand for other data. With `files` it has a third part, since the same may happen in a
    restored checkpoint.
    """
    parts = [_hash("\n".join(source_lines), 32)]
    if query_id is not None or files is not None:
        parts.append("" if query_id is None else _hash(query_id, 16))
    if files is not None:
        parts.append(_hash("\n".join(files), 32))
    return ".".join(parts)


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def _named(user: str, writer_name: str | None) -> str:
    return user if writer_name is None else f"{user}/{writer_name}"


def _connect_user(commit_user: str | None) -> str:
    if commit_user is None:
        raise InvalidRequestError(
            "on Spark Connect a foreachBatch function cannot see which query it runs for: give commit_user, a name "
            "that stays the same over restarts and belongs to this query alone; or use writeStream.format('lakelog')"
        )
    return commit_user


def _running_query(batch: DataFrame, query_id: str | None) -> Any:  # a Java StreamExecution, or None
    # The batch's own session is a clone without `streams`; the shared state knows the queries of all sessions.
    if query_id is None:
        return None
    uuid = jvm_of(batch.sparkSession).java.util.UUID.fromString(query_id)
    return batch.sparkSession._jsparkSession.sharedState().activeStreamingQueries().get(uuid)


def _is_temporary(execution: Any) -> bool:  # a Java StreamExecution
    """True when Spark made the checkpoint folder itself and will delete it."""
    cls = execution.getClass()
    while cls.getSimpleName() != "StreamExecution":
        cls = cls.getSuperclass()
    flag = cls.getDeclaredField("deleteCheckpointOnStop")
    flag.setAccessible(True)
    return bool(flag.get(execution))
