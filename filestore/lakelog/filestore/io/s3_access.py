"""The access to an S3-compatible object store: given with a catalog or a path, never stored with a table.

Settings that are not given come from where AWS's own tools look: the variables AWS_*, a web identity, the container,
the instance. The options have the names of Paimon, which passes them to Hadoop's S3A.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import Option, check_known, parse_bool, parse_duration_millis, parse_whole

PREFIX = "s3."
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def _at_least_one(text: str) -> int:
    number = parse_whole(text)
    if number < 1:
        raise ValueError("expected at least 1")
    return number


ENDPOINT = Option(
    key="s3.endpoint",
    parse=str,
    default="",
    doc="The store's address, such as `https://minio.example.org:9000`; AWS without it.",
    kind="a URL",
)
REGION = Option(key="s3.region", parse=str, default="", doc="The region of the bucket.")
ACCESS_KEY = Option(key="s3.access-key", parse=str, default="", doc="The access key; `s3.secret-key` goes with it.")
SECRET_KEY = Option(key="s3.secret-key", parse=str, default="", doc="The secret key. Shown and stored nowhere.")
SESSION_TOKEN = Option(
    key="s3.session.token", parse=str, default="", doc="The token of temporary keys. Shown and stored nowhere."
)
PATH_STYLE: Option[bool | None] = Option(
    key="s3.path.style.access",
    parse=parse_bool,
    default=None,
    doc="Whether the bucket's name is in the path and not in the host's name; by default where `s3.endpoint` is given, "
    "and for names with dots.",
)
TIMEOUT = Option(
    key="s3.connection.timeout",
    parse=parse_duration_millis,
    default=30_000,
    doc="How long one request may take.",
)
ATTEMPTS = Option(
    key="s3.attempts.maximum",
    parse=_at_least_one,
    default=5,
    doc="How often a request without an answer is tried.",
    kind="a positive number",
)

S3_OPTIONS: tuple[Option[object], ...] = (
    ENDPOINT,
    REGION,
    ACCESS_KEY,
    SECRET_KEY,
    SESSION_TOKEN,
    PATH_STYLE,
    TIMEOUT,
    ATTEMPTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """The settings of the access, pickled to Spark's tasks with keys that its repr hides. Empty is not given."""

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    is_path_style: bool | None = None
    timeout_millis: int = TIMEOUT.default
    attempts_max: int = ATTEMPTS.default

    @classmethod
    def of(cls, options: Mapping[str, str]) -> S3Access:
        """The settings in the options. Raises OptionError for unknown keys and bad values; no error shows a key."""
        check_known(options, S3_OPTIONS)
        endpoint, access_key, secret_key = ENDPOINT.of(options), ACCESS_KEY.of(options), SECRET_KEY.of(options)
        if bool(access_key) != bool(secret_key):
            given, lacking = (ACCESS_KEY, SECRET_KEY) if access_key else (SECRET_KEY, ACCESS_KEY)
            raise InvalidRequestError(f"{given.key} is given without {lacking.key}; give both, or none")
        if SESSION_TOKEN.of(options) and not access_key:
            raise InvalidRequestError(f"{SESSION_TOKEN.key} is given without {ACCESS_KEY.key} and {SECRET_KEY.key}")
        if endpoint:
            _check_endpoint(endpoint)
        return cls(
            endpoint=endpoint.rstrip("/"),
            region=REGION.of(options),
            access_key=access_key,
            secret_key=secret_key,
            session_token=SESSION_TOKEN.of(options),
            is_path_style=PATH_STYLE.of(options),
            timeout_millis=TIMEOUT.of(options),
            attempts_max=ATTEMPTS.of(options),
        )

    @property
    def effective_endpoint(self) -> str:
        """The object store's address: the given one, else the one in the environment; empty for AWS."""
        named = (os.environ.get(key, "") for key in _ENDPOINT_VARIABLES)
        return self.endpoint or next(filter(None, named), "").rstrip("/")


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.username or parts.password:
        raise OptionError(f"option {ENDPOINT.key!r} holds keys; give them as {ACCESS_KEY.key} and {SECRET_KEY.key}")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise OptionError.bad_value(ENDPOINT.key, endpoint, "a URL such as https://minio.example.org:9000")
