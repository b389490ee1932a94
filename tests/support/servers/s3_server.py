"""An S3 server of its own process, for tests: moto behind real HTTP."""

from __future__ import annotations

import json
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakelog.filestore.io.object_store import ObjectStoreFileIO
from lakelog.filestore.io.s3_access import S3Access

PROGRAM = Path(__file__).with_name("s3_server_program.py")
ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-that-nobody-may-see"
REGION = "us-east-1"
_AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/s3/aws4_request, SignedHeaders=, Signature="
)


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server answers."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """The options that reach it."""
        return self.options_at(self.endpoint)

    def options_at(self, endpoint: str) -> dict[str, str]:
        """The options that reach it through another address, such as a proxy's."""
        keys = {"s3.access-key": ACCESS_KEY, "s3.secret-key": SECRET_KEY, "s3.region": REGION}
        return {"s3.endpoint": endpoint, **keys}

    def file_io(self, endpoint: str | None = None, **more: str) -> ObjectStoreFileIO:
        """The files of the server, or of a proxy before it; `more` are options without `s3.`, with _ for dots."""
        given = {f"s3.{key.replace('_', '.')}": value for key, value in more.items()}
        return ObjectStoreFileIO(S3Access.of({**self.options_at(endpoint or self.endpoint), **given}))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
        }

    def new_bucket(self, name: str | None = None) -> str:
        """Make a bucket, and give its name."""
        name = name or f"b-{uuid.uuid4().hex[:12]}"
        self.request("PUT", f"/{name}")
        return name

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
        """One request, without the client that is tested."""
        url = f"{self.endpoint}{path}"
        request = urllib.request.Request(url, body, {"Authorization": _AUTHORIZATION, **headers}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def running_s3(python: Path) -> Iterator[S3Server]:
    """Start the server with a Python that has moto, and stop it."""
    with subprocess.Popen([python, PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3Server(json.loads(process.stdout.readline()))
        finally:
            process.terminate()
