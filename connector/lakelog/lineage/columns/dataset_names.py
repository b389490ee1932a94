"""The names of datasets in the lineage of fields.

The namespace of a table of ours is its database, `default` for a table outside a warehouse, which is named by its
folder; a branch is `t$branch_b`. Other datasets have the names of OpenLineage: `file` and the path, `s3://bucket` and
the key, `kafka://host:port` and the topic, `postgres://host:port` and the table.

Source: OpenLineage, "Naming Conventions".
"""

from __future__ import annotations

import re

from lakelog.common.quoting import cut
from lakelog.filestore.io import is_local
from lakelog.filestore.schema import BRANCH_INFIX, line_name
from lakelog.lineage.columns.field_edges import Dataset

DEFAULT_NAMESPACE = "default"
_NAME_MAX = 500
_FILE_URL = re.compile(r"^file:/*(?=/)")
_JDBC = re.compile(r"^jdbc:(\w+):(?://)?(?:[^/@]*@)?([^/?;]*)(?:/([^?;]*))?")
_SYSTEMS = {"postgresql": "postgres"}  # by the name in a URL of JDBC


def dataset_of_table(name: str, branch: str | None = None) -> Dataset:
    """A table of ours by its name, `db.t` or a folder; `branch`, or the name itself, may name a branch of it."""
    name, _, named = name.partition(BRANCH_INFIX)
    branch = branch or named or None
    if "/" in name:
        return Dataset(DEFAULT_NAMESPACE, line_name(name, branch))
    database, _, table = name.rpartition(".")
    return Dataset(database or DEFAULT_NAMESPACE, line_name(table, branch))


def dataset_of_path(path: str) -> Dataset:
    """A file or a folder."""
    return Dataset(*place_of(cut(path, _NAME_MAX)))


def dataset_of_topic(servers: str | None, topic: str) -> Dataset:
    """A topic, or a pattern of topics; the first of the servers names the cluster."""
    first = (servers or "").partition(",")[0].strip()
    return Dataset(f"kafka://{first}" if first else "kafka", cut(topic, _NAME_MAX))


def dataset_of_jdbc(url: str, table: str) -> Dataset:
    """A table of a database, by its URL, of which users, passwords and settings are left out."""
    parts = _JDBC.match(url)
    if parts is None:
        return Dataset("jdbc", cut(table, _NAME_MAX))
    system, host, database = parts.groups()
    name = f"{database}.{table}" if database else table
    return Dataset(f"{_SYSTEMS.get(system, system)}://{host}", cut(name, _NAME_MAX))


def place_of(path: str) -> tuple[str, str]:
    """The namespace and the name of the dataset in a folder, without the user that a URL may name."""
    path = _FILE_URL.sub("", path)
    if is_local(path):
        return "file", path
    scheme, _, rest = path.partition("://")
    host, slash, folder = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}", folder if scheme.startswith("s3") else f"{slash}{folder}"
