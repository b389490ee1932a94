"""A topic of Kafka's as a source, by Spark's own connector, beside a table: both are named with what was read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import ForeignSource, Source, TableSource
from lakelog.lineage import known_edges
from tests.spark.sink.test_capture import lineages, streamed
from tests.support.logs.foreign_topics import fill, new_topic

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
Offsets = dict[str, dict[str, int]]


def put(table: Table, ids: Sequence[int], value: int) -> None:
    table.write(pa.table({"id": list(ids), "v": [value] * len(ids)}, schema=SCHEMA))


def offsets(text: str | None) -> Offsets:
    """The offsets of a topic, by partition, as Spark's connector writes them."""
    assert text is not None
    found: Offsets = json.loads(text)
    return found


def read_of(sources: Sequence[Source]) -> tuple[tuple[str, str | None, Offsets, Offsets], TableSource]:
    """What a batch has read of the topic (format, name, from and to), and of the table."""
    (topic,) = [one for one in sources if isinstance(one, ForeignSource)]
    (table,) = [one for one in sources if isinstance(one, TableSource)]
    assert len(sources) == 2
    return (topic.format, topic.name, offsets(topic.start), offsets(topic.end)), table


def test_a_topic_beside_a_table_is_named_with_its_offsets_from_and_to(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path / "lake")
    options = {"write-only": "true"}
    source, *sinks = (
        catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options=options)
        for name in ("source", "union", "join")
    )
    topic = new_topic(bootstrap_servers, partitions=2)
    command = [
        sys.executable,
        "-m",
        "tests.support.jobs.kafka_source_job",
        str(tmp_path),
        bootstrap_servers,
        topic.name,
    ]

    fill(topic, [(None, b"1"), (None, b"2"), (None, b"3")], partition=0)
    fill(topic, [(None, b"4")], partition=1)
    put(source, [3, 4, 5], 1)
    subprocess.run(command, check=True, timeout=300)
    fill(topic, [(None, b"5"), (None, b"6")], partition=1)
    put(source, [1], 2)
    subprocess.run(command, check=True, timeout=300)

    name = topic.name
    begin: Offsets = {name: {"0": 0, "1": 0}}
    first: Offsets = {name: {"0": 3, "1": 1}}
    second: Offsets = {name: {"0": 3, "1": 3}}
    for sink in sinks:
        found = [read_of(one.sources) for one in lineages(sink)]
        assert [of_topic for of_topic, _ in found] == [("kafka", name, begin, first), ("kafka", name, first, second)]
        assert [of_table for _, of_table in found] == [streamed(source, None, 1), streamed(source, 1, 2)]
    union, join = ({row["id"]: row["v"] for row in sink.to_arrow().to_pylist()} for sink in sinks)
    assert union.keys() == {1, 2, 3, 4, 5, 6}
    assert join == {1: 2, 3: 1, 4: 1, 5: 1}
    edges = [one for one in known_edges(catalog).to_pylist() if one["source_kind"] == "foreign"]
    assert {one["source_table"] for one in edges} == {f"kafka:{name}"}
