"""The application: /api for the page, /v3 for other programs, and the files of the page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from html import escape
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final  # Any: an answer as JSON
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from lakelog.common.errors import LakelogError
from lakelog.lineage.page.exports import Export
from lakelog.lineage.page.graph_api import GraphApi
from lakelog.lineage.page.page_errors import RequestError, status_of
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.page.query_values import Query
from lakelog.lineage.page.saved_page import STATIC
from lakelog.lineage.server.cdap_api import CdapApi
from lakelog.lineage.server.cdap_values import ListPage
from lakelog.lineage.server.endpoint_api import EndpointApi
from lakelog.lineage.server.json_answers import JsonAnswer
from lakelog.lineage.server.page_guard import PageGuard

TOTAL_HEADER: Final = "lakelog-total"
_GRAPH: Final = "ns, dataset, field, direction, depth, limit, start, end, at, kinds"
_OF_DATASET: Final = "/v3/namespaces/{ns}/datasets/{dataset}/lineage"
_OF_END_POINT: Final = "/v3/namespaces/{ns}/endpoints/{dataset}/fields"

logger = logging.getLogger("lakelog.lineage")

Paths = list[tuple[str, Callable[[Query], Any], str]]
"""Each path with its answer and the names of the values that its query may have."""


def page_app(
    state: PageState,
    *,
    token: str | None = None,
    is_local: bool = True,
    names: Collection[str] = (),
    static: Path = STATIC,
) -> ASGIApp:
    """The application over what is known. Without `is_local` it answers other machines, and needs a token."""
    paths = paths_of(state)
    docs = _docs(paths)

    def list_paths(request: Request) -> Response:  # noqa: ARG001
        return HTMLResponse(docs)

    def index(request: Request) -> Response:  # noqa: ARG001
        page = static / "index.html"
        return HTMLResponse(page.read_text("utf-8") if page.is_file() else docs)

    routes: list[BaseRoute] = [Route(path, _endpoint(answer)) for path, answer, _ in paths]
    routes += [Route("/docs", list_paths), Route("/", index)]
    if static.is_dir():
        routes.append(Mount("/static", StaticFiles(directory=static, follow_symlink=False)))
    handlers = {RequestError: _of_request, LakelogError: _of_lakelog, HTTPException: _of_routing, Exception: _of_bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return PageGuard(app, token=token, is_local=is_local, names=names)


def paths_of(state: PageState) -> Paths:
    """All paths that are answered."""
    page, cdap, end_points = GraphApi(state), CdapApi(state), EndpointApi(state)
    return [
        ("/api/search", page.search, "q, limit, offset"),
        ("/api/graph", page.graph, f"{_GRAPH}, wrong"),
        ("/api/edge", page.edge, "fromNs, fromDataset, fromField, toNs, toDataset, toField, start, end"),
        ("/api/dataset", page.dataset, "ns, dataset, limit, before, wrong, wrongNs, wrongDataset, wrongField"),
        ("/api/impact", page.impact, "ns, dataset, field, depth, limit, offset, start, end, kinds"),
        ("/api/export", page.export, f"{_GRAPH}, format"),
        (_OF_DATASET, cdap.levels, "start, end, levels, collapse, rollup"),
        (f"{_OF_DATASET}/fields", cdap.fields, "start, end, prefix, includeCurrent, limit, offset"),
        (f"{_OF_DATASET}/allfieldlineage", cdap.all_fields, "start, end, direction"),
        (f"{_OF_DATASET}/fields/{{field}}", cdap.field, "start, end, direction"),
        (f"{_OF_DATASET}/fields/{{field}}/operations", cdap.operations, "start, end, direction"),
        (f"{_OF_END_POINT}/lineage", end_points.pairs, "start, end, level, limit, offset"),
        (f"{_OF_END_POINT}/{{field}}/lineage", end_points.field, "start, end, direction"),
    ]


def _endpoint(answer: Callable[[Query], Any]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        parts = [(name, unquote(part)) for name, part in request.path_params.items()]  # encoded: see `page_guard`
        match answer(Query([*request.query_params.multi_items(), *parts])):
            case Export() as found:
                headers = {"content-disposition": f'attachment; filename="{found.name}"'}
                return Response(found.text, media_type=found.media_type, headers=headers)
            case ListPage() as found:
                return JsonAnswer(found.items, headers={TOTAL_HEADER: str(found.total)})
            case found:
                return JsonAnswer(found)

    return endpoint


def _of_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _answer(request, error.status, error.text)


def _of_lakelog(request: Request, error: Exception) -> Response:
    assert isinstance(error, LakelogError)
    status = status_of(error)
    if status >= 500:
        logger.warning("%s", error)
    return _answer(request, status, str(error))


def _of_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "There is nothing at this path; /docs lists the paths." if error.status_code == 404 else error.detail
    return _answer(request, error.status_code, text)


def _of_bug(request: Request, error: Exception) -> Response:
    logger.error("an answer failed: %r", error)
    return _answer(request, 500, "The answer failed, which is a bug of lakelog; the log of the server says more.")


def _answer(request: Request, status: int, text: str) -> Response:
    if request.url.path.startswith("/v3/"):
        return PlainTextResponse(text, status)
    return JsonAnswer({"error": text}, status)


def _docs(paths: Paths) -> str:
    """The paths as plain HTML, without a script of others."""
    parts = ["<!doctype html>", '<html lang="en">', '<meta charset="utf-8">', "<title>lakelog lineage: REST</title>"]
    parts.append("<h1>lakelog lineage</h1>")
    parts.append(
        "<p>Times are seconds since 1970, or now and steps, such as now-1d+4h; an end is not included.</p><dl>"
    )
    for path, answer, names in paths:
        parts.append(f"<dt><code>GET {escape(path)}?{escape(names)}</code></dt>")
        parts.append(f"<dd>{escape(cleandoc(answer.__doc__ or ''))}</dd>")
    return "\n".join([*parts, "</dl>", "</html>"])
