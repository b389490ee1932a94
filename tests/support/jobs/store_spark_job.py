"""Batch and streaming, reading and writing in a store, by a Spark that logs all it does. Run by tests as a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any  # Any: what json gives

import pyarrow as pa

from lakelog.catalog import Catalog
from lakelog.spark import compact, read, write_stream
from tests.support.servers.spark import make_session

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def main(warehouse: str, folder: str, given: str, bootstrap_servers: str) -> None:
    """Run, and print what was found as the last line."""
    options: dict[str, str] = json.loads(given)
    catalog = Catalog(warehouse, bootstrap_servers, options=options)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    copy = catalog.create_table("db.copy", schema=SCHEMA, primary_keys=["id"])
    spark = make_session()
    spark.sparkContext.setLogLevel("INFO")
    found: dict[str, Any] = {}

    rows = spark.createDataFrame([(1, "one"), (2, "two")], "id BIGINT, name STRING")
    rows.write.format("lakelog").options(**options).mode("append").save(table.path)
    named = spark.read.format("lakelog").options(**options, warehouse=warehouse, table="db.t").load()
    named.explain(True)
    found["batch"] = sorted(map(tuple, named.collect()))

    Path(folder, "in").mkdir()
    for number in range(3):
        Path(folder, "in", f"{number}.json").write_text(json.dumps({"id": number, "name": f"from {number}"}))
    arriving = spark.readStream.schema("id BIGINT, name STRING").option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    stream = write_stream(arriving, "db.t", catalog=catalog, checkpoint_location=f"{folder}/ck/1", available_now=True)
    stream.awaitTermination()
    compact(spark, "db.t", catalog=catalog, full=True)
    merged = read(spark, "db.t", catalog=catalog, columns=["name", "id"], where="id > 0")
    merged.explain(True)
    found["merged"] = sorted(map(tuple, merged.collect()))

    log = {"bucket": "2", "log.system": "kafka"}
    catalog.create_table("db.logged", schema=SCHEMA, primary_keys=["id"], options=log)
    stream = write_stream(
        arriving, "db.logged", catalog=catalog, checkpoint_location=f"{folder}/ck/3", available_now=True
    )
    stream.awaitTermination()
    found["logged"] = sorted(map(tuple, read(spark, "db.logged", catalog=catalog).collect()))
    catalog.drop_table("db.logged")

    changes = spark.readStream.format("lakelog").options(**options).load(table.path)
    writer = changes.writeStream.format("lakelog").options(**options).option("checkpointLocation", f"{folder}/ck/2")
    following = writer.trigger(availableNow=True).start(copy.path)
    following.awaitTermination()
    print(following.lastProgress, following.status, file=sys.stderr)
    found["copied"] = sorted(map(tuple, catalog.load_table("db.copy").to_arrow().to_pandas().to_numpy().tolist()))

    try:
        spark.read.format("lakelog").options(**options).option("columns", "nobody").load(table.path)
    except Exception as error:  # noqa: BLE001  # whatever Spark makes of it is looked at
        print(error, file=sys.stderr)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
