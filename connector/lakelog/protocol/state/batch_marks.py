"""The batch that wrote a transaction, as readers of the log show it: some members of the commit header."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.common.json_fields import optional, parse_object, string, whole
from lakelog.protocol.state.header import unreadable_header


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMark:
    """A batch: the user and identifier of its commit, and its watermark in milliseconds since 1970, None without one.

    JSON keys, in a header and in the record that names a header file: user, id, watermark (absent without one).
    """

    user: str
    identifier: int
    watermark_millis: int | None = None

    def to_json(self) -> dict[str, object]:
        """The members."""
        fields: dict[str, object] = {"user": self.user, "id": self.identifier}
        if self.watermark_millis is not None:
            fields["watermark"] = self.watermark_millis
        return fields

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> BatchMark | None:
        """The batch in what a record carries; None if the record only names a file. Raises CorruptDataError."""
        try:
            fields = parse_object(data)
            if "user" not in fields and "file" in fields:
                return None
            return cls(
                user=string(fields, "user"),
                identifier=whole(fields, "id"),
                watermark_millis=optional(whole, fields, "watermark"),
            )
        except (KeyError, ValueError) as error:
            raise unreadable_header(where, error) from error
