"""lakelog as users have it: the wheel, unpacked outside of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Wheel:
    """An unpacked wheel, and how to run Python with it."""

    folder: Path

    @property
    def python(self) -> list[str]:
        """The command of a Python that sees the wheel: `-S` leaves out the links that lead to the repository."""
        return [sys.executable, "-S"]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of `python`, and of what it starts."""
        installed = sysconfig.get_path("purelib")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), installed])}


def unpacked_wheel(folder: Path) -> Wheel:
    """Build the wheel of this checkout, and unpack it in a folder."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "installed")
    return Wheel(folder / "installed")
