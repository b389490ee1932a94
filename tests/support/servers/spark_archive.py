"""The class archive of Spark's JVM: most of a short session's time goes into reading and checking 15,000 classes.

usage: python -m tests.support.servers.spark_archive
Makes the archive beside this Python unless it is there: runs one small session over all that tests use, and lets the
JVM keep the classes it has loaded. Tests use it where it is there, and run without it all the same.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
# With it, the sessions of one Spark use the same daemons of Python, each of which takes a second to import all.
SHARE_DAEMONS_VARIABLE = "LAKELOG_TEST_SHARE_DAEMONS"
_MODULE = "tests.support.servers.spark_archive"
_FOLDER_VARIABLE = "LAKELOG_TEST_ARCHIVE_FOLDER"
# A JVM of the tests lives for seconds up to minutes: compiling it fast counts for more than compiling it well.
_FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def start_options() -> str:
    """What Spark's JVM starts with in tests, before what the environment says already."""
    given = os.environ.get(OPTIONS_VARIABLE, "")
    archive = archive_path()
    use = f"{shlex.quote(f'-XX:SharedArchiveFile={archive}')} {_QUIET}" if archive and archive.exists() else ""
    return " ".join(filter(None, (_FAST_START, use, given)))


def archive_path() -> Path | None:
    """Where the archive for this Java, Spark and environment is; None without Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        return None
    program = Path(java).resolve()
    made_for = f"{program} {program.stat().st_mtime_ns} {version('pyspark')} {Path(__file__).read_text('utf-8')}"
    return Path(sys.prefix, f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa")


def main() -> None:
    """Make the archive; two that do so at once spoil nothing."""
    archive = archive_path()
    if archive is None or archive.exists():
        return
    unfinished = archive.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        options = f"{_FAST_START} {_QUIET} {shlex.quote(f'-XX:ArchiveClassesAtExit={unfinished}')}"
        environment = {**os.environ, OPTIONS_VARIABLE: options, _FOLDER_VARIABLE: folder}
        program = f"from {_MODULE} import run_session; run_session()"
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    if not unfinished.exists():
        print(f"this Java made no archive {archive}; the tests start Spark without one", file=sys.stderr)
        return
    unfinished.replace(archive)
    for older in set(archive.parent.glob("spark-*.jsa")) - {archive}:
        older.unlink(missing_ok=True)


def run_session() -> None:
    """Stream files into a table and out of it, read, write and aggregate, and wait until the JVM has ended."""
    # Not above: conftest asks for the options alone, which takes no Spark.
    from lakelog.catalog import Catalog  # noqa: PLC0415
    from tests.support.logs.changes import TABLE_SCHEMA, make_history  # noqa: PLC0415
    from tests.support.servers.spark import make_session  # noqa: PLC0415
    from tests.support.streams.streams import feed, keep_batch, write_changes  # noqa: PLC0415

    folder = Path(os.environ[_FOLDER_VARIABLE])
    spark = make_session()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    table = Catalog(folder / "lake").create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"])
    feed(folder, make_history(0, files=2, changes_per_file=20, keys=9), range(2))
    write_changes(spark, folder, table)
    rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
    to_batches = rows.writeStream.foreachBatch(partial(keep_batch, folder)).trigger(availableNow=True)
    to_batches.option("checkpointLocation", str(folder / "read")).start().awaitTermination()
    read = spark.read.format("lakelog").load(table.path)
    read.groupBy("name").agg({"amount": "sum"}).orderBy("name").collect()
    some = spark.createDataFrame([(1, "one", 1)], read.schema)
    copy = Catalog(folder / "lake").create_table("db.copy", schema=TABLE_SCHEMA)
    some.write.format("lakelog").mode("append").save(copy.path)
    some.createOrReplaceTempView("some")
    spark.sql("SELECT count(*) FROM some JOIN some USING (id)").show()
    spark.stop()
    gateway.proc.stdin.close()  # the JVM ends with it, and writes its archive then
    gateway.proc.wait()


if __name__ == "__main__":
    main()
