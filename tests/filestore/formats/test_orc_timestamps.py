"""Timestamps of ORC files beyond what 64 bits of nanoseconds hold: years 1 to 9999, at every depth."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import LakelogError, UnsupportedError
from lakelog.common.types import DataField, array_of, map_of, parse_type, row_of
from lakelog.filestore.formats.orc import orc_timestamps
from lakelog.filestore.formats.orc.orc import OrcFile
from lakelog.filestore.formats.orc.orc_zones import local_seconds, start_of_2015
from tests.support.files.local_files import local_file

MOMENT = parse_type("TIMESTAMP(6)")
FIELDS = [
    DataField(id=0, name="id", type=parse_type("INT")),
    DataField(id=1, name="ts", type=MOMENT),
    DataField(id=2, name="ms", type=parse_type("TIMESTAMP(3)")),
    DataField(id=3, name="many", type=array_of(MOMENT)),
    DataField(id=4, name="inner", type=row_of([DataField(id=5, name="t", type=MOMENT)])),
    DataField(id=6, name="pairs", type=map_of(parse_type("INT"), MOMENT)),
    DataField(id=7, name="text", type=parse_type("STRING")),
]
FIRST, DAYS = datetime(1, 1, 1), 3_652_058


def rows(count: int, seed: int = 1) -> pa.Table:
    """Rows of moments that are anywhere, with nulls at every depth."""
    chance = random.Random(seed)

    def moment(unit: int = 1) -> datetime | None:
        if chance.random() < 0.2:
            return None
        found = FIRST + timedelta(days=chance.randrange(DAYS), microseconds=chance.randrange(86_400 * 10**6))
        return found.replace(microsecond=found.microsecond // unit * unit)

    given = [
        {
            "id": number,
            "ts": moment(),
            "ms": moment(1_000),
            "many": None if chance.random() < 0.1 else [moment() for _ in range(chance.randrange(4))],
            "inner": None if chance.random() < 0.1 else {"t": moment()},
            "pairs": None if chance.random() < 0.1 else [(key, moment()) for key in range(chance.randrange(3))],
            "text": f"text {number}",
        }
        for number in range(count)
    ]
    stamp = pa.timestamp("us")
    kinds = [
        pa.int32(),
        stamp,
        pa.timestamp("ms"),
        pa.list_(stamp),
        pa.struct([("t", stamp)]),
        pa.map_(pa.int32(), stamp),
    ]
    schema = pa.schema(list(zip([field.name for field in FIELDS], [*kinds, pa.string()], strict=True)))
    return pa.Table.from_pylist(given, schema=schema)


def read(path: Path, fields: list[DataField] = FIELDS) -> pa.Table:
    with OrcFile(local_file(path)) as opened:
        return pa.Table.from_batches(opened.iter_batches(fields, batch_rows=1_000), to_arrow_schema(fields))


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "zlib", "snappy", "lz4"])
def test_timestamps_of_all_years_are_read(tmp_path: Path, compression: str) -> None:
    table = rows(3_000)
    orc.write_table(table, tmp_path / "x.orc", compression=compression, stripe_size=64 << 10, batch_size=500)
    found = read(tmp_path / "x.orc")
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.field("ts").type == pa.timestamp("us")
    some = [FIELDS[3], FIELDS[0]]
    assert read(tmp_path / "x.orc", some).to_pylist() == table.select(["many", "id"]).to_pylist()


def test_a_stripe_of_nulls_and_an_empty_file_are_read(tmp_path: Path) -> None:
    far = pa.table({"id": pa.array([1, 2], pa.int32()), "ts": pa.array([datetime(9999, 12, 31), None])})
    for number, table in enumerate((far, far.slice(1), far.slice(2))):
        orc.write_table(table, tmp_path / f"{number}.orc")
        assert read(tmp_path / f"{number}.orc", FIELDS[:2]).to_pylist() == table.to_pylist()


def test_a_column_of_nine_digits_holds_no_far_timestamp(tmp_path: Path) -> None:
    orc.write_table(pa.table({"t": pa.array([datetime(1, 1, 1)], pa.timestamp("us"))}), tmp_path / "x.orc")
    with pytest.raises(
        UnsupportedError, match=r"x\.orc holds timestamps before 1677 or after 2262 in a column of more"
    ):
        read(tmp_path / "x.orc", [DataField(id=0, name="t", type=parse_type("TIMESTAMP(9)"))])


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC", "Asia/Kolkata"])
def test_seconds_of_a_zone_are_what_its_clocks_showed(zone: str) -> None:
    """A writer stores the seconds since its clocks showed the start of 2015."""
    start = datetime(2015, 1, 1, tzinfo=ZoneInfo(zone)).timestamp()
    shown = [datetime(1950, 7, 1, 12), datetime(2015, 1, 1), datetime(2020, 7, 1, 3, 4, 5), datetime(1901, 6, 1)]
    since = [int(moment.replace(tzinfo=ZoneInfo(zone)).timestamp() - start) for moment in shown]
    found = local_seconds(np.array(since, np.int64) + start_of_2015(zone), zone)
    assert [datetime(1970, 1, 1) + timedelta(seconds=int(second)) for second in found] == shown


def test_damage_is_an_error_of_lakelog_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    orc.write_table(rows(300), path, compression="zstd")
    data = path.read_bytes()
    told = 0
    for place in [*range(0, len(data) - 600, len(data) // 60), *range(len(data) - 600, len(data), 7)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x11]) + data[place + 1 :])
        try:
            read(path)
        except LakelogError:
            told += 1
    assert told > 20


JAVA = Path(__file__).parent / "java_orc"
T, L = DataField(id=0, name="t", type=MOMENT), DataField(id=1, name="l", type=array_of(MOMENT))


def as_java_shows(moments: pa.ChunkedArray) -> list[str]:
    return [f"{one[:19]}.{one[20:].ljust(6, '0')}" for one in moments.cast(pa.string()).to_pylist()]


def found_by_java(name: str) -> list[str]:
    """What ORC's reader for Java finds in a file of its writer; see WriteTimestamps.java."""
    lines = (JAVA / f"{name}.txt").read_text().split()
    shown = [line.replace("T", " ") if line.count(":") == 2 else line.replace("T", " ") + ":00" for line in lines]
    return [f"{one[:19]}.{one[20:26].ljust(6, '0')}" for one in shown]


@pytest.mark.parametrize("name", sorted(path.stem for path in JAVA.glob("*.orc") if "lzo" not in path.stem))
def test_timestamps_of_java_are_what_its_reader_finds(name: str) -> None:
    """Around 1970, in the last second before a zone's clocks changed, before 1900, before 1677, after 2262."""
    found = read(JAVA / f"{name}.orc", [T, L])

    assert as_java_shows(found["t"]) == found_by_java(name)
    assert pc.list_flatten(found["l"]).equals(found["t"])


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "TIMESTAMP(9)"])
def test_timestamps_of_java_are_right_in_any_number_of_digits(kind: str) -> None:
    found = read(JAVA / "shanghai.orc", [DataField(id=0, name="t", type=parse_type(kind))])["t"]

    digits = found.type.unit == "ns"
    assert found[1].cast(pa.string()).as_py() == "1970-01-01 00:00:00.001" + "000000" * digits
    assert len(found) == len(found_by_java("shanghai"))


def test_old_timestamps_in_lzo_are_refused_where_their_zone_is_not_readable() -> None:
    with pytest.raises(UnsupportedError, match=r"timestamps before 1970 or after 2262, and has the compression 'lzo'"):
        read(JAVA / "auckland_lzo.orc", [T])


@pytest.mark.parametrize("zone", ["PST", "JST", "IST", "SystemV/PST8PDT"])
def test_an_old_zone_of_java_is_unsupported_and_named(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc_timestamps, "start_of_2015", lambda _: start_of_2015(zone))
    with pytest.raises(UnsupportedError, match=rf"time zone '{zone}', which Python .* zone such as UTC"):
        read(JAVA / "shanghai.orc", [T])


def test_a_zone_that_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="time zone 'Mars/Olympus', which is not known"):
        start_of_2015("Mars/Olympus")
    assert start_of_2015("GMT+08:00") == start_of_2015("Asia/Shanghai")
