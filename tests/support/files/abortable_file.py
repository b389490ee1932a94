"""An output file of a test's own, with the `abort` that writers of data files call."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import pyarrow as pa


class AbortableFile(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types here
    """A file that can be given up."""

    give_up: Callable[[], None]

    def abort(self) -> None:
        self.close()
        self.give_up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
