"""The folder in which the streams of a group agree; it is in the checkpoint location of their query.

    <folder>/<group>/member-<hash of the table's identity>.json   {"table": identity, "token": "..."}, of each stream
    <folder>/<group>/leader-<hash of the tokens>.json             {"table": identity}, of each run of the query
    <folder>/<group>/behind-<hash of the positions>.json          a decision: {"behind": positions, "end": positions}

Positions are {identity: [snapshot, commit]}; the first decision, behind nothing, has the name `behind-start.json` and
null. Each stream has a planner process of its own. When a run begins, Spark first asks all streams for their read
limits, and each enters with a new token; then Spark asks one stream for the end of a batch. So a run has its own
tokens, and the stream that is asked first creates the leader file. Leader and decision files are created, never
replaced: a batch that is planned again after a crash finds the decision.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.json_fields import member, parse_object, string
from lakelog.common.quoting import cause, listed
from lakelog.filestore.io import FileIO
from lakelog.streams.reading.offsets import Positions, positions_of, positions_to_json

_BYTES_MAX = 1 << 20
_Parsed = TypeVar("_Parsed")


class GroupFolder:
    """The files of one group."""

    def __init__(self, path: str, file_io: FileIO, *, group: str) -> None:
        """Do no I/O. `group` must be usable as a file name."""
        self._path = f"{path}/{group}"
        self._io = file_io
        self._group = group

    def enter(self, table: str) -> str:
        """Enter a run as the stream of a table; returns the token."""
        token = uuid.uuid4().hex
        self._io.make_dirs(self._path)
        self._io.write_bytes(self._member_path(table), _encoded({"table": table, "token": token}))
        return token

    def leads(self, table: str, token: str, tables: Mapping[str, str]) -> bool:
        """Whether the stream of a table is the first in its run that asks. `tables` has all tables, with their names.

        Raises InvalidRequestError if a stream has not entered, or two streams of one table have.
        """
        tokens = {one: self._token(one) for one in tables}
        missing = [tables[one] for one, found in tokens.items() if found is None]
        if missing:
            raise InvalidRequestError(
                f"group {self._group!r} is of the tables {listed(tables.values())}, and this query reads no stream of "
                f"{listed(missing)} in it: read each of them with the options of the group, as "
                "lakelog.spark.read_streams does"
            )
        if tokens[table] != token:
            raise InvalidRequestError(
                f"two streams of table {tables[table]} have entered group {self._group!r}: read it once and use the "
                "DataFrame twice, and give each query a folder of its own"
            )
        run = _hash([[one, tokens[one]] for one in sorted(tables)])
        path = f"{self._path}/leader-{run}.json"
        is_first = self._io.create_new(path, _encoded({"table": table}))
        if is_first:
            self._delete("leader-", but={path})
        return is_first

    def find(self, behind: Positions | None) -> Positions | None:
        """The decision that was made behind these positions; None if there is none."""
        return self._read(self._decision_path(behind), lambda fields: positions_of(member(fields, "end")))

    def decide(self, behind: Positions | None, end: Positions) -> Positions:
        """Where the batch behind these positions ends: at `end`, or where it was decided before."""
        fields = {"behind": None if behind is None else positions_to_json(behind), "end": positions_to_json(end)}
        if self._io.create_new(self._decision_path(behind), _encoded(fields)):
            return end
        found = self.find(behind)
        assert found is not None, "what is behind the last batch is not deleted"
        return found

    def forget(self, reached: Positions) -> None:
        """Delete the decisions before the one behind these positions, up to which a batch is committed."""
        self._delete("behind-", but={self._decision_path(reached)})

    def _delete(self, prefix: str, *, but: Collection[str]) -> None:
        for name in self._io.list_names(self._path):
            path = f"{self._path}/{name}"
            if name.startswith(prefix) and path not in but:
                self._io.delete(path)

    def _token(self, table: str) -> str | None:
        return self._read(self._member_path(table), lambda fields: string(fields, "token"))

    def _member_path(self, table: str) -> str:
        return f"{self._path}/member-{_hash(table)}.json"

    def _decision_path(self, behind: Positions | None) -> str:
        return f"{self._path}/behind-{'start' if behind is None else _hash(positions_to_json(behind))}.json"

    def _read(self, path: str, parse: Callable[[Mapping[str, Any]], _Parsed]) -> _Parsed | None:
        try:
            data = self._io.read_bytes(path)
        except NotFoundError:
            return None
        try:
            if len(data) > _BYTES_MAX:
                raise ValueError(f"it has {len(data)} bytes, expected {_BYTES_MAX} at most")
            return parse(parse_object(data.decode()))
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"{path}, a file of the group {self._group!r} of streams, is not readable: {cause(error)}. Delete the "
                "folder of the group: its streams go on from the offsets in the checkpoint"
            ) from error


def _encoded(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()[:32]
