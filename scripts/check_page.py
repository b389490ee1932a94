"""Check the types of the page of the lineage: its JavaScript has JSDoc, which TypeScript reads.

usage: check_page.py NPM
TypeScript is pinned in scripts/page/package-lock.json, with the hashes of its files; npm installs it into
.venvs/typescript once. The page itself has no dependency and is served as it is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "scripts" / "page"
DEBIAN_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
INSTALLED = ROOT / ".venvs" / "typescript"


def main(npm: Path) -> int:
    """The exit status of the check."""
    # npm's programs find the node beside it.
    environment = {**os.environ, "PATH": os.pathsep.join((str(npm.parent), os.environ.get("PATH", "")))}
    # Node brings certificates of its own: those of the machine count too, as they do for pip.
    certificates = ssl.get_default_verify_paths().cafile or str(DEBIAN_CERTIFICATES)
    if Path(certificates).exists():
        environment.setdefault("NODE_EXTRA_CA_CERTS", certificates)
    with (INSTALLED.parent / "typescript.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install(npm, environment)
    tsc = INSTALLED / "node_modules" / ".bin" / "tsc"
    return subprocess.run([tsc, "--project", PROJECT / "tsconfig.json"], env=environment, check=False).returncode


def install(npm: Path, environment: dict[str, str]) -> None:
    """Install what the lock file says, unless it is there."""
    files = [PROJECT / name for name in ("package.json", "package-lock.json")]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    stamp = INSTALLED / "stamp"
    if stamp.exists() and stamp.read_text("ascii") == wanted:
        return
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir(parents=True)
    for path in files:
        shutil.copy(path, INSTALLED)
    command = [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if subprocess.run(command, cwd=INSTALLED, env=environment, check=False).returncode != 0:
        raise SystemExit("check: npm cannot install TypeScript; check the network and npm's settings")
    stamp.write_text(wanted, "ascii")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
