"""Options behind the name of a table: which state of it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.common.options import parse_bool
from lakelog.warehouse.system_names import names_system_table

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.refs import SnapshotChoice
    from lakelog.sql.language.names import FoundName

# Options that name a state, by Paimon's keys and by our own.
_STATES = {
    "scan.snapshot-id": "snapshot_id",
    "snapshot_id": "snapshot_id",
    "scan.tag-name": "tag",
    "tag": "tag",
    "scan.version": "version",
    "version": "version",
    "scan.timestamp": "timestamp",
    "timestamp": "timestamp",
    "scan.timestamp-millis": "timestamp",
    "scan.watermark": "watermark",
    "watermark": "watermark",
    "branch": "branch",
    "scan.branch": "branch",
}
_FRESH = ("fresh", "scan.fresh")
_RANGE = "incremental-between"
_NUMBERS = ("scan.snapshot-id", "snapshot_id", "scan.timestamp-millis", "scan.watermark", "watermark")


def choice_of(options: Mapping[str, str]) -> dict[str, Any]:
    """The state that options name, as the keywords of a read."""
    keys = [key for key in options if key in _STATES]
    for name in {_STATES[key] for key in keys}:
        twice = [key for key in keys if _STATES[key] == name]
        if len(twice) > 1:
            raise InvalidRequestError(f"{' and '.join(twice)} both name the {name} that is read: give one of them")
    found = {_STATES[key]: (key, options[key]) for key in keys}
    return {name: int(value) if key in _NUMBERS and value.isdigit() else value for name, (key, value) in found.items()}


def check_known(found: FoundName, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError for an option of a read that is not known here."""
    is_system = names_system_table(found.full, in_warehouse=True)
    taken = {*_STATES, *((_RANGE,) if is_system else _FRESH)}  # a system table shows snapshots alone
    unknown = sorted(set(options) - taken)
    if _RANGE in options and not is_system:
        raise UnsupportedError(
            f"WITH ({_RANGE} = ...) behind {found}: it goes with `$audit_log` and `$binlog`; CHANGES FROM VERSION a TO "
            "VERSION b gives the changes of a table"
        )
    if unknown:
        raise UnsupportedError(f"WITH ({unknown[0]} = ...) behind {found}: expected one of {', '.join(sorted(taken))}")


def fresh_of(options: Mapping[str, str]) -> bool | None:
    """Whether the options ask for a fresh read; None if they do not say so. Raises OptionError."""
    for key in _FRESH:
        if key in options:
            try:
                return parse_bool(options[key])
            except KeyError:
                raise OptionError(f"WITH ({key} = {options[key]}): expected true or false") from None
    return None


def options_of(given: list[exp.Expr] | None) -> dict[str, str]:
    """{key: value} of WITH (key = value, ...)."""
    found: dict[str, str] = {}
    for one in given or ():
        if not isinstance(one, exp.EQ):
            raise InvalidRequestError(f"WITH ({one.sql()}): expected key = value")
        key = one.this.name if isinstance(one.this, exp.Literal) else ".".join(part.name for part in one.this.parts)
        found[key] = str(one.expression.this) if isinstance(one.expression, exp.Boolean) else one.expression.name
    return found


def system_rows(found: FoundName, choice: SnapshotChoice, options: Mapping[str, str]) -> pa.Table:
    """The rows of a system table at a state. Raises InvalidRequestError, naming options that it does not take."""
    try:
        return found.catalog.system_table(found.full, **_between(options), **choice).to_arrow()
    except InvalidRequestError as error:
        given = [f"{key}={value}" for key, value in options.items()]
        raise InvalidRequestError(f"WITH ({', '.join(given)}): {error}" if given else str(error)) from error


def _between(options: Mapping[str, str]) -> dict[str, int]:
    """The range of `incremental-between`, as the keywords of a system table. Raises InvalidRequestError."""
    given = options.get(_RANGE)
    if given is None:
        return {}
    first, _, last = given.partition(",")
    if not (first.strip().isdigit() and last.strip().isdigit()):
        raise InvalidRequestError(f"{_RANGE}={given!r}: expected two snapshots such as 1,2")
    return {"after": int(first), "up_to": int(last)}
