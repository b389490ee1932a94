"""The S3 server of tests, run as a program by the Python that has moto. Prints its address, and serves.

moto looks whether a key exists and puts it in two steps, so its answer to `If-None-Match` is only atomic when it takes
one request at a time: the server has one thread.
"""

from __future__ import annotations

import json
import logging

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(json.dumps(f"http://127.0.0.1:{server.server_port}"), flush=True)
server.serve_forever()
