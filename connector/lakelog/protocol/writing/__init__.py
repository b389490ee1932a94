"""The commit of a micro-batch: the part of a task, the part of the driver, and the same for eventual logs."""
