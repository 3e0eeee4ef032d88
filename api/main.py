"""The HTTP application."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from api.http import fair_calls, metrics, openapi, problems
from api.http.fair_calls import FairCalls
from api.http.lookup_cache import LookupCaches
from api.http.middleware import RequestGate
from api.http.protocol import TimedProtocol
from api.http.request_log import RequestLog
from api.http.scopes import OperationScopes
from api.identity.tokens import OidcOptions, Tokens
from api.indexers import model_choice
from api.models.budget import ModelBudgets
from api.models.check import ModelChecks
from api.page import routes as page
from api.routes import access, agents, health, indexers, keys, models, places, projects, sources, tool_actions, tools
from api.routes.content import node_content, nodes, uploads
from api.routes.search import across, chunks, grep, metadata_keys, queries, symbols, tree_nodes
from api.search.query import query_vectors
from api.search.rank import rerank
from schemas.errors import FoldexError
from schemas.release import RELEASE
from worker.hosts.presence import Presence
from worker.hosts.reach import probe_services
from worker.machine.host import this_host
from worker.machine.memory.api_memory import ApiMemory
from worker.machine.memory.freed_memory import keep_little
from worker.machine.memory.gc_pause import SEARCHING_OBJECTS, collect_rarely
from worker.resources import Resources, preload_store
from worker.sandbox.helper import stop_all
from worker.sandbox.pool import BRISK
from worker.settings import Settings
from worker.state.connections import REQUEST
from worker.state.schema_version import SchemaGate
from worker.state.search import live_rows
from worker.tokens.languages import share_model

log = structlog.get_logger()

DESCRIPTION = """Foldex makes folders searchable.

Create a *search tool* over a folder, poll its status, and query it; searching works from the first indexed file on.

- A *project* owns tools and nodes. A *node* is a folder or file that Foldex itself keeps.
- A *task* is one run that indexes a folder. A tool's status is that of its newest task.
- A *chunk* is a part of a file, such as a section or a function. A model *embeds* it, which makes a vector.
- A *tree of summaries* (RAPTOR) is made over the chunks, for questions about the whole folder.

Errors are `application/problem+json` with a stable `code` and a `detail` that names the remedy.

A key with the scope `impersonate` names the principals of its user in the header `Foldex-Principals`, separated by
commas. What access lists hide from them does not exist for that call. An identity provider's token names them itself.

Every answer has an `X-Request-Id`, which the logs of the API and the workers hold too. Send your own to follow a
request.
"""

#: Seconds that a thread computes before another one may. A query gives the interpreter away dozens of times, and waits
#: this long for each thread that computes meanwhile. Python's 5 ms make a query of 9 ms wait for 100.
SWITCH_SECONDS = 0.0005

#: In the order of the documentation.
ROUTES = (
    tools,
    tool_actions,
    queries,
    grep,
    metadata_keys,
    symbols,
    chunks,
    across,
    sources,
    places,
    indexers,
    tree_nodes,
    nodes,
    node_content,
    uploads,
    projects,
    keys,
    access,
    models,
    agents,
    health,
    page,
)


def create_app(settings: Settings) -> FastAPI:
    """Create the application for these settings. Connections open on first use."""
    resources = Resources(settings, pool_size=20, limits=REQUEST, helper_limits=BRISK, gate=SchemaGate())
    memory = ApiMemory(settings.api_memory_mb << 20)
    query_vectors.limit_cache(memory.query_vectors)
    live_rows.limit_rows(memory.found_rows)
    TimedProtocol.limit(memory)

    app = FastAPIOffline(
        title="Foldex",
        version=RELEASE,
        description=DESCRIPTION,
        lifespan=partial(_serve, settings, resources),
        redirect_slashes=False,
        generate_unique_id_function=openapi.short_id,
    )
    app.state.resources = resources
    app.state.model_checks = ModelChecks(resources)
    app.state.lookup_caches = LookupCaches(lambda: resources.pool)
    tokens = Tokens.of(settings.values(OidcOptions)) if settings.auth == "on" else None
    app.state.tokens = tokens
    problems.install(app)
    for module in ROUTES:
        app.include_router(module.router)
    app.include_router(tree_nodes.aliases)
    app.add_middleware(FairCalls)
    app.add_middleware(
        RequestGate,
        is_open=settings.auth == "off",
        max_body_bytes=settings.max_body_bytes,
        all_bodies=memory.bodies,
        caches=app.state.lookup_caches,
        operations=OperationScopes(app.routes),
        tokens=tokens,
    )
    metrics.install(app, metrics.BacklogCollector(resources.pool), ModelBudgets(resources))
    openapi.install(app, is_open=settings.auth == "off")
    app.add_middleware(RequestLog)
    return app


@asynccontextmanager
async def _serve(settings: Settings, resources: Resources, _: FastAPI) -> AsyncIterator[None]:
    """Prepare the process, register it among the hosts while it serves, and close what it opened."""
    keep_little()
    share_model(settings.foldex_home.absolute() / "run")
    preload_store(settings)
    fair_calls.reserve_threads()
    sys.setswitchinterval(SWITCH_SECONDS)
    # loading a model takes seconds: do it in the background so that the first answer does not wait
    threading.Thread(target=_warm, args=(resources,), name="warm", daemon=True).start()
    ended, presence = threading.Event(), Presence(settings, "api", node=f"api-{settings.api_port}@{this_host()}")
    presence.keep(resources.pool, ended, reach=partial(probe_services, settings))
    yield
    ended.set()
    presence.end()
    resources.pool.close()
    stop_all()


def _warm(resources: Resources) -> None:
    """Check and load models before the first create or query needs them."""
    model_choice.warm(resources.settings)
    rerank.warm(resources.settings.values(rerank.RerankOptions))
    try:
        profile, explicit = resources.profile(None, None)
        resources.embedder(profile, explicit_dimensions=explicit).embed(["warm"])
    except FoldexError as error:
        log.warning("the default embedding model is not usable yet", code=error.code, reason=error.message)
    # most objects belong to libraries and stay alive; scanning them on each collection takes a seventh of a query
    gc.collect()
    gc.freeze()
    collect_rarely(SEARCHING_OBJECTS)
