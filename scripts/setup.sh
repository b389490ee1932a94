# Sourced by the other scripts: sets ROOT, VENV and PYTHON, and makes the virtual environment what requirements/ say.
# The variable ALSO names further environments to make. Quick when there is nothing to do; safe when two scripts run at once.
# Spark starts many Pythons: where none may keep what it has compiled, each would compile all of lakelog again.
unset PYTHONDONTWRITEBYTECODE
ROOT=$(cd "$(dirname "$0")/.." && pwd)
VENV="$ROOT/.venv"

find_python() {
    for python in "${LAKELOG_PYTHON:-python3}" python3.11 python3.12 python3.13 python3.14 python; do
        if "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    echo "setup: no Python 3.11 or later here; install one (Debian: apt-get install python3 python3-venv)" >&2
    exit 1
}

PYTHON=$(find_python) || exit 1
"$PYTHON" "$ROOT/scripts/setup.py" ${ALSO:-} || exit 1
