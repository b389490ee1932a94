"""Worker processes of Spark: what is left out of their garbage collections."""

import subprocess
import sys

LATE_IMPORT = """
import gc
from lakelog.spark.worker import spare_modules_from_collection

spare_modules_from_collection()
first = gc.get_freeze_count()
spare_modules_from_collection()
assert gc.get_freeze_count() == first, "nothing was imported in between"
import xml.dom.minidom
spare_modules_from_collection()
assert gc.get_freeze_count() > first, "modules of the first task are looked through after each later one"
"""


def test_modules_that_a_task_imports_late_are_spared_from_the_next_task_on() -> None:
    subprocess.run([sys.executable, "-c", LATE_IMPORT], check=True, timeout=60)
