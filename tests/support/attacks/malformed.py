"""Records that no table can take: from templates, from hypothesis, and good ones that were damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any  # Any: JSON of any form

from hypothesis import strategies as st

GOOD = {"id": 1, "name": "a", "amount": 12, "at": "2024-01-02 03:04:05"}
DDL = "id BIGINT NOT NULL, name STRING NOT NULL, amount INT, at TIMESTAMP(3)"


def envelope(**fields: Any) -> bytes:
    """An insert of the good row, with other members."""
    return json.dumps({"before": None, "after": GOOD, "source": {}, "op": "c", **fields}).encode()


def row(**columns: Any) -> bytes:
    """An insert of the good row, with other columns."""
    return envelope(after={**GOOD, **columns})


TEMPLATES: Sequence[Callable[[random.Random], bytes]] = (
    lambda rng: b"",
    lambda rng: rng.randbytes(rng.randrange(1, 200)),
    lambda rng: b"{" * rng.randrange(1, 5_000),
    lambda rng: b"[" * rng.randrange(1, 200_000),
    lambda rng: b'{"a":' * rng.randrange(65, 5_000) + b"1",
    lambda rng: envelope()[: rng.randrange(len(envelope()))],
    lambda rng: envelope() + envelope(),
    lambda rng: envelope() + b"\n" + envelope(),
    lambda rng: envelope() + rng.choice([b"x", b"\0", b"}", b"]"]),
    lambda rng: b"\xef\xbb\xbf" + envelope(),
    lambda rng: envelope().replace(b'"a"', b'"\xff\xfe"'),
    lambda rng: envelope().replace(b'"a"', b'"\\ud800"'),
    lambda rng: envelope().replace(b'"op": "c"', b'"op": "c", "op": "d"'),
    lambda rng: envelope().replace(b'"id": 1', b'"id": 1, "id": 2'),
    lambda rng: envelope().replace(b'"id": 1', b'"id": ' + rng.choice([b"NaN", b"1e999999999", b"0x1", b"01", b"1."])),
    lambda rng: envelope().replace(b'"id": 1', b'"id": ' + b"9" * rng.randrange(20, 10_000)),
    lambda rng: envelope(op=rng.choice(["", "C", "cu", None, 1, [], {}, "insert", "x" * 1_000])),
    lambda rng: envelope(op=rng.choice("ud"), before=None, after=None),
    lambda rng: envelope(after=rng.choice([None, 1, "x", [], [GOOD], True])),
    lambda rng: json.dumps(rng.choice([None, 1, "x", [], {}, {"payload": 1}, {"schema": None}, [GOOD]])).encode(),
    lambda rng: json.dumps({"schema": rng.choice([1, {}, [], "x", {"fields": 1}]), "payload": {"op": "c"}}).encode(),
    lambda rng: b'{"schema":' + b'{"fields":[' * rng.randrange(1, 3_000) + b',"payload":{}}',
    lambda rng: row(id=rng.choice([None, "x", 1.5, [], {}, True, 1 << 63, -(1 << 63) - 1, ""])),
    lambda rng: row(name=None),
    lambda rng: row(amount=rng.choice(["many", 1 << 31, -(1 << 31) - 1, 0.5, [1], {"a": 1}, True])),
    lambda rng: row(at=rng.choice(["yesterday", "2024-13-01 00:00:00", "2024-02-30", 1 << 70, [], {}, True, ""])),
    lambda rng: row(**{f"added{rng.randrange(99)}": rng.choice([1, "x", [1], {"a": 1}, 1.5])}),
    lambda rng: envelope(after=rng.choice([{}, {"name": "a"}, {"id": 1}, {"Id": 1, "ID": 2, "name": "a"}])),
    lambda rng: json.dumps({"table": "t", "ddl": "ALTER TABLE t", "databaseName": "shop"}).encode(),
    lambda rng: json.dumps({"status": "BEGIN", "id": "571", "event_count": None}).encode(),
    lambda rng: json.dumps(GOOD).encode(),
)


def malformed(count: int, *, seed: int) -> Iterator[bytes]:
    """Records of the templates in turn."""
    rng = random.Random(seed)
    for number in range(count):
        yield TEMPLATES[number % len(TEMPLATES)](rng)


def _jsons() -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names(), inner, max_size=6),
        max_leaves=20,
    )


def _names() -> st.SearchStrategy[str]:
    known = ["before", "after", "op", "source", "schema", "payload", "id", "name", "amount", "at", "fields", "type"]
    return st.sampled_from(known) | st.text(max_size=8)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """A good record, some bytes of which were changed, cut out or repeated."""
    data = bytearray(envelope())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(len(data) - 1, 0)))
        end = min(len(data), start + draw(st.integers(0, 6)))
        data[start:end] = draw(st.binary(max_size=6))
    return bytes(data)


def any_records() -> st.SearchStrategy[bytes]:
    """Bytes, JSON of any form with the names of envelopes, and damaged records: most of them malformed."""
    return st.one_of(
        st.binary(max_size=60),
        _jsons().map(lambda value: json.dumps(value).encode()),
        st.builds(
            lambda op, before, after: envelope(op=op, before=before, after=after),
            st.text(max_size=2),
            _jsons(),
            _jsons(),
        ),
        _damaged(),
    )
