"""Lists the models that an installation offers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from api.http.bodies import JsonRoute
from api.http.dependencies import ResourcesDep, known_caller
from api.models.budget import with_budgets
from api.models.check import ModelChecks
from api.models.offered import OfferedOptions, offered
from schemas.model import Models

router = APIRouter(prefix="/api/models", tags=["models"], route_class=JsonRoute)


@router.get("", dependencies=[known_caller])
def list_models(
    request: Request,
    resources: ResourcesDep,
    check: Annotated[
        bool,
        Query(description="Ask each model with one tiny request whether it answers, for at most 10 s. Kept for 10 s."),
    ] = False,
) -> Models:
    """List the embedding, chat and rerank models that are configured or allowed, by provider.

    Patterns of `ALLOWED_MODELS` are shown as the models that match them. At most 32 models are checked.
    """
    listed = with_budgets(resources, offered(resources.settings.values(OfferedOptions), resources.access_to))
    checks: ModelChecks = request.app.state.model_checks
    return Models(items=checks.checked(listed) if check else listed)
