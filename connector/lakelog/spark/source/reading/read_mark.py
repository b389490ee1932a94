"""The mark of a batch read: which state of which table its rows show.

A read by `format("lakelog")` is planned by a Python process of Spark, which keeps the pickled partitions with the
relation, so that all queries of one DataFrame read the same: the first partition carries the mark. A read that the
driver plans (`lakelog.spark.read`) has the mark as a tag on the leaves of its plan, which Spark copies with them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol  # Any: py4j gives Java objects without types
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame
from pyspark.sql.datasource import InputPartition

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.origins import ReadMode, TableSource, TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.records.sources import source_of_table

if TYPE_CHECKING:
    from lakelog.catalog import Table

_TAG = "lakelog.read"
_ATTACHED: WeakValueDictionary[str, ReadState] = WeakValueDictionary()
CATALOG_PREFIX = "lakelog catalog "  # of the text of an attached warehouse
_MARK = "lakelog_read"  # attribute of a partition


def changes_read(table: TableStore, start: TableVersion | None, end: TableVersion | None) -> TableSource:
    """A read of the changes after one state up to another; None is the empty table."""
    return replace(
        source_of_table(table, mode=ReadMode.BATCH),
        start=start,
        end=end,
        why=f"a batch read of the changes behind snapshot {0 if start is None else start.snapshot_id} alone",
    )


def marked(partitions: Sequence[InputPartition], source: TableSource) -> list[InputPartition]:
    """The partitions of a read, at least one; the first says what is read."""
    first, *others = partitions or [InputPartition(None)]
    setattr(first, _MARK, source)
    return [first, *others]


def read_of_partition(pickled: bytes) -> TableSource | None:
    """What a read shows, by its first partition as Spark keeps it; None if the partition does not say so.

    The partition was made by a process of this application; Spark's workers unpickle it, too.
    """
    source = getattr(pickle.loads(pickled), _MARK, None)
    return source if isinstance(source, TableSource) else None


class ReadState(Protocol):
    """What a table of an attached warehouse shows."""

    @property
    def table(self) -> Table:
        """The table."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None is the empty table."""
        ...


def note_attached(text: str, state: ReadState) -> ReadState:
    """Remember what a table of an attached warehouse shows, for as long as what is returned is held.

    `text` is its toString(). Tables with the same text, of which a plan may have several, hold the same state.
    """
    return _ATTACHED.setdefault(text, state)


def attached_state(table: Any) -> ReadState | None:  # a Java Table
    """What a table of Spark's plan shows, if it is one of an attached warehouse."""
    return _ATTACHED.get(str(table.toString()))


def is_attached(catalog: Any) -> bool:  # a Java CatalogPlugin
    """Whether a catalog of Spark is an attached warehouse."""
    return str(catalog.toString()).startswith(CATALOG_PREFIX)


def tag_leaves(rows: DataFrame, source: TableSource) -> DataFrame:
    """The rows, with a plan that says what they show. No effect on Spark Connect, where no plan is seen."""
    plan = getattr(rows, "_jdf", None)
    if plan is not None:
        leaves = plan.queryExecution().analyzed().collectLeaves()
        text = json.dumps(source.to_json())
        for at in range(leaves.size()):
            leaves.apply(at).setTagValue(_tag(rows.sparkSession._jvm), text)
    return rows


def read_of_leaf(leaf: Any, jvm: Any) -> TableSource | None:  # a Java LogicalPlan, and py4j's view of the JVM
    """What `tag_leaves` has recorded on a leaf."""
    found = leaf.getTagValue(_tag(jvm))
    if found.isEmpty():
        return None
    try:
        return TableSource.from_json(json.loads(found.get()))
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"the tag {_TAG} of a plan is not readable") from error


def _tag(jvm: Any) -> Any:  # a Java TreeNodeTag
    return jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(_TAG)
