"""The application: /api for the page, /v3 for other programs, and the files of the page."""

from __future__ import annotations

import logging
from collections.abc import Collection
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from lakelog.common.errors import LakelogError
from lakelog.lineage.page.cdap_api import cdap_router
from lakelog.lineage.page.endpoint_api import endpoint_router
from lakelog.lineage.page.graph_api import graph_router
from lakelog.lineage.page.json_answers import JsonAnswer
from lakelog.lineage.page.page_errors import RequestError, status_of
from lakelog.lineage.page.page_guard import PageGuard
from lakelog.lineage.page.page_state import PageState

STATIC = Path(__file__).parent / "static"

logger = logging.getLogger("lakelog.lineage")


def page_app(
    state: PageState,
    *,
    token: str | None = None,
    is_local: bool = True,
    names: Collection[str] = (),
    static: Path = STATIC,
) -> ASGIApp:
    """The application over what is known. Without `is_local` it answers other machines, and needs a token."""
    app = FastAPI(
        title="lakelog lineage",
        description="The lineage of fields. Times are seconds since 1970, or now and steps, such as now-1d+4h.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    for router in (graph_router(state), cdap_router(state), endpoint_router(state)):
        app.include_router(router)
    _add_errors(app)

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(_docs(app))

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        page = static / "index.html"
        return HTMLResponse(page.read_text("utf-8") if page.is_file() else _docs(app))

    if static.is_dir():
        app.mount("/static", StaticFiles(directory=static, follow_symlink=False), name="static")
    return PageGuard(app, token=token, is_local=is_local, names=names)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    def of_request(request: Request, error: RequestError) -> Response:
        return _answer(request, error.status, error.text)

    @app.exception_handler(LakelogError)
    def of_lakelog(request: Request, error: LakelogError) -> Response:
        status = status_of(error)
        if status >= 500:
            logger.warning("%s", error)
        return _answer(request, status, str(error))

    @app.exception_handler(RequestValidationError)
    def of_validation(request: Request, error: RequestValidationError) -> Response:  # noqa: ARG001
        return _answer(request, 400, "The query has a parameter of a wrong form; /openapi.json lists them.")

    @app.exception_handler(HTTPException)
    def of_routing(request: Request, error: HTTPException) -> Response:
        text = "There is nothing at this path; /docs lists the paths." if error.status_code == 404 else error.detail
        return _answer(request, error.status_code, text)

    @app.exception_handler(Exception)
    def of_bug(request: Request, error: Exception) -> Response:
        logger.error("an answer failed: %r", error)
        return _answer(request, 500, "The answer failed, which is a bug of lakelog; the log of the server says more.")


def _answer(request: Request, status: int, text: str) -> Response:
    if request.url.path.startswith("/v3/"):
        return PlainTextResponse(text, status)
    return JsonAnswer({"error": text}, status)


def _docs(app: FastAPI) -> str:
    """The paths as plain HTML, without a script of others."""
    parts = ["<!doctype html>", '<html lang="en">', '<meta charset="utf-8">', "<title>lakelog lineage: REST</title>"]
    parts += ["<h1>lakelog lineage</h1>", '<p><a href="/openapi.json">openapi.json</a></p>', "<dl>"]
    for path, methods in app.openapi()["paths"].items():
        one = methods["get"]
        values = ", ".join(value["name"] for value in one.get("parameters", ()) if value["in"] == "query")
        parts.append(f"<dt><code>GET {escape(path)}{escape('?' + values) if values else ''}</code></dt>")
        parts.append(f"<dd>{escape(one.get('description', ''))}</dd>")
    return "\n".join([*parts, "</dl>", "</html>"])
