"""Tables that Flink wrote with Paimon, unpacked, and what Flink itself reads from them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any  # Any: JSON rows

CASES = Path(__file__).parents[2] / "conformance" / "paimon"


def unpack(case: str, folder: Path) -> Path:
    """Unpack a case below `folder`; gives its warehouse."""
    # By tar, not by tarfile: its safe extraction came with Python 3.11.4, and this runs from 3.11.0 on.
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", str(CASES / case / "warehouse.tar.gz"), "-C", str(folder)], check=True)
    return folder / "warehouse"


def expected(case: str, table: str, name: str) -> list[dict[str, Any]]:
    """The JSON lines of `expected/<table>/<name>.jsonl`."""
    with (CASES / case / "expected" / table / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
