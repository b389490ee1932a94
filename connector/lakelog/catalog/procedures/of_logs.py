"""Procedures of a table's log in Kafka, and of the lineage of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: values of parameters

from lakelog.catalog.procedures.procedure import (
    FORCE,
    TABLE,
    Procedure,
    age,
    check_forced,
    done,
    flag,
    number,
    rows,
    table_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.table_opener import TableOpener

_KEEP_TOPIC = flag("keep_topic", "true keeps the topic for its other readers")
_SNAPSHOT = number("snapshot", "the number of the snapshot", is_required=True)


def _add_log(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values).log_store.add()
    return done(topic=None if table.log is None else table.log.topic)


def _remove_log(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    check_forced(
        values, f"remove_log ends the log of table {table.name}: its topic is deleted unless keep_topic is true"
    )
    table.log_store.remove(keep_topic=bool(values["keep_topic"]))
    return done(result=True)


def _renew_log(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    check_forced(values, f"renew_log ends the topic of table {table.name} and begins another one")
    renewed = table.log_store.renew(keep_topic=bool(values["keep_topic"]))
    return done(topic=None if renewed.log is None else renewed.log.topic)


def _verify_log(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    return done(is_equal=table_of(catalog, values).log_store.verify().is_equal)


def _drop_ended_logs(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    return rows({"topic": table_of(catalog, values).log_store.drop_ended(older_than=values["older_than"])})


def _lineage_feed(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:  # noqa: ARG001  # it takes none
    from lakelog.lineage import feed

    fed = feed(catalog)
    return done(tables=fed.tables, batches=fed.batches, edges=fed.edges)


def _upstream(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    from lakelog.lineage import upstream

    return upstream(catalog, values["table"], values["snapshot"], values["depth"])


def _downstream(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    from lakelog.lineage import downstream

    return downstream(catalog, values["table"], values["snapshot"], values["depth"])


def _tainted(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    from lakelog.lineage import tainted

    return tainted(catalog, values["table"], values["snapshot"]).tables


LOGS = (
    Procedure(name="add_log", comment="Give a table a log with a topic in Kafka.", parameters=(TABLE,), run=_add_log),
    Procedure(
        name="remove_log",
        comment="End the log of a table; its files stay.",
        parameters=(TABLE, _KEEP_TOPIC, FORCE),
        run=_remove_log,
    ),
    Procedure(
        name="renew_log",
        comment="End the log of a table and begin another one with a new topic.",
        parameters=(TABLE, _KEEP_TOPIC, FORCE),
        run=_renew_log,
    ),
    Procedure(
        name="verify_log",
        comment="Compare what the log of a table says with its files.",
        parameters=(TABLE,),
        run=_verify_log,
    ),
    Procedure(
        name="drop_ended_logs",
        comment="Delete older topics of a table.",
        parameters=(TABLE, age("older_than", "a time, or a duration such as 7 d: younger topics stay")),
        run=_drop_ended_logs,
    ),
)

LINEAGE = (
    Procedure(
        name="lineage_feed",
        comment="Put what the snapshots of all tables record into the system tables of lineage.",
        parameters=(),
        run=_lineage_feed,
    ),
    Procedure(
        name="upstream",
        comment="What made a snapshot, and what made that.",
        parameters=(TABLE, _SNAPSHOT, number("depth", "how many steps; all by default")),
        run=_upstream,
    ),
    Procedure(
        name="downstream",
        comment="What was made from a snapshot, and what was made from that.",
        parameters=(TABLE, _SNAPSHOT, number("depth", "how many steps; all by default")),
        run=_downstream,
    ),
    Procedure(
        name="tainted",
        comment="What the wrong rows of a snapshot have reached.",
        parameters=(TABLE, _SNAPSHOT),
        run=_tainted,
    ),
)
