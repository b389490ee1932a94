"""The process that has a name, such as that of a consumer or of a writer: the last one that has taken it."""

from __future__ import annotations

import json
import os
import socket
import time

from lakelog.common.errors import ConflictError
from lakelog.common.file_names import numbers_of
from lakelog.filestore.metadata.tables import TableStore


class NameTakenError(ConflictError):
    """Another process has taken the name of this one."""


class NameOwner:
    """The files `<prefix><number>` of a folder: who creates the one with the highest number has the name."""

    def __init__(self, table: TableStore, folder: str, prefix: str, what: str) -> None:
        """Do no I/O. `what` names the owner in errors, such as "consumer 'billing'"."""
        self._table = table
        self._folder = folder
        self._prefix = prefix
        self._what = what
        self._number = 0

    def take(self) -> bool:
        """Become the owner: an older one is refused from now on. Returns whether there was an older one."""
        about = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "time": int(time.time())}).encode()
        while True:
            known = self._numbers()
            number = max(known, default=0) + 1
            if self._table.file_io.create_new(self._path(number), about):
                break
        self._number = number
        for older in known:
            self._table.file_io.delete(self._path(older))
        return bool(known)

    def check(self) -> None:
        """Raise NameTakenError when another process has taken the name. One listing."""
        newest = max(self._numbers(), default=0)
        if newest <= self._number:
            return
        about = self._table.file_io.read_bytes(self._path(newest)).decode(errors="replace")[:200]
        raise NameTakenError(
            f"{self._what} of table {self._table.name} is that of another process now ({about}); this one stops. Give "
            "each process a name of its own, or stop one of the two"
        )

    def _numbers(self) -> list[int]:
        return list(numbers_of(self._table.file_io.list_names(self._folder), self._prefix))

    def _path(self, number: int) -> str:
        return f"{self._folder}/{self._prefix}{number}"
