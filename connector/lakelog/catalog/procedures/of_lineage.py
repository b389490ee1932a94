"""Procedures of the lineage of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: values of parameters

from lakelog.catalog.procedures.procedure import BIGINT, TABLE, Parameter, Procedure, rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.table_opener import TableOpener

_SNAPSHOT = (
    Parameter(name="snapshot", kind=BIGINT, comment="The snapshot of this number.", of="snapshot_id", is_required=True),
    Parameter(name="depth", kind=BIGINT, comment="How many steps; all by default.", of="depth"),
    Parameter(name="snapshot_id", kind=BIGINT, comment="The snapshot of this number.", of="snapshot_id"),
)


def _lineage_feed(catalog: TableOpener, values: Mapping[str, Any], zone: str) -> pa.Table:  # noqa: ARG001  # takes none
    from lakelog.lineage import feed

    fed = feed(catalog)
    return rows({"tables": [fed.tables], "batches": [fed.batches], "edges": [fed.edges]})


def _upstream(catalog: TableOpener, values: Mapping[str, Any], zone: str) -> pa.Table:  # noqa: ARG001  # it takes no time
    from lakelog.lineage import upstream

    return upstream(catalog, values["table"], values["snapshot_id"], values.get("depth"))


def _downstream(catalog: TableOpener, values: Mapping[str, Any], zone: str) -> pa.Table:  # noqa: ARG001  # likewise
    from lakelog.lineage import downstream

    return downstream(catalog, values["table"], values["snapshot_id"], values.get("depth"))


def _tainted(catalog: TableOpener, values: Mapping[str, Any], zone: str) -> pa.Table:  # noqa: ARG001  # likewise
    from lakelog.lineage import tainted

    return tainted(catalog, values["table"], values["snapshot_id"]).tables


LINEAGE = (
    Procedure(
        name="lineage_feed",
        comment="Put what all snapshots record into the system tables of lineage.",
        parameters=(),
        run=_lineage_feed,
    ),
    Procedure(
        name="upstream",
        comment="What made a snapshot, and what made that.",
        parameters=(TABLE, *_SNAPSHOT),
        run=_upstream,
    ),
    Procedure(
        name="downstream",
        comment="What was made from a snapshot, and what was made from that.",
        parameters=(TABLE, *_SNAPSHOT),
        run=_downstream,
    ),
    Procedure(
        name="tainted",
        comment="What the wrong rows of a snapshot have reached.",
        parameters=(TABLE, _SNAPSHOT[0], _SNAPSHOT[2]),
        run=_tainted,
    ),
)
