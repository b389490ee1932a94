"""All procedures by name, those of declared verbs and those of lineage; and those of Paimon that are missing, and why.

Source: Paimon, "Spark Procedures".
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from lakelog.catalog.procedures.of_lineage import LINEAGE
from lakelog.catalog.procedures.procedure import Procedure, procedure_of
from lakelog.catalog.verbs.declared import declared_verbs
from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.common.quoting import listed, shown

_OF_VERBS = [procedure_of(declared, call) for declared in declared_verbs() for call in declared.verb.calls]
PROCEDURES: Mapping[str, Procedure] = {one.name: one for one in (*_OF_VERBS, *LINEAGE)}

_NO_VIEWS = "a warehouse has no views; make a temporary view of Spark"
_NO_FUNCTIONS = "a warehouse keeps no functions; register them in Spark"
# Procedures of Paimon that are not here: what to do instead, or why there is nothing to do.
MISSING: Mapping[str, str] = {
    "compact_manifest": "commits and compactions merge manifests by themselves",
    "compact_database": "compact each table",
    "compact_chain_table": "there are no chain tables",
    "materialize_deletion_vectors": "there are no data evolution tables; compact applies deletion vectors",
    "trigger_tag_automatic_creation": "each commit creates the tags that are due",
    "remove_unexisting_files": "it would drop rows in silence; restore an older snapshot, or the files from a copy",
    "purge_files": "truncate the table, then expire_snapshots and remove_orphan_files",
    "repair": "tables are found by their folders; there is no metastore",
    "repair_earliest_snapshot": "the hint of the earliest snapshot is not trusted",
    "migrate_database": "there is no Hive metastore",
    "migrate_table": "create the table, and insert the rows of the other one",
    "mark_partition_done": "partitions are not marked; tag the table",
    "rewrite_file_index": "file indexes are not written",
    "alter_view_dialect": _NO_VIEWS,
    "create_function": _NO_FUNCTIONS,
    "alter_function": _NO_FUNCTIONS,
    "drop_function": _NO_FUNCTIONS,
}


def find_procedure(name: str) -> Procedure:
    """The procedure of a name. Raises UnsupportedError for one of Paimon's that is missing, and NotFoundError."""
    found = PROCEDURES.get(name.lower())
    if found is not None:
        return found
    if name.lower() in MISSING:
        raise UnsupportedError(f"there is no procedure {name}: {MISSING[name.lower()]}")
    near = get_close_matches(name.lower(), PROCEDURES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the procedures are {listed(sorted(PROCEDURES))}"
    raise NotFoundError(f"there is no procedure {shown(name)}; {hint}")
