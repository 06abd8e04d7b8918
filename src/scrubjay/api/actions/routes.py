"""Everything that this door declares, as routes. A new resource is one more declaration in `RESOURCES`."""

from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from scrubjay.api.actions import queries
from scrubjay.api.actions.asking import Asking
from scrubjay.api.actions.crawler import CRAWLER
from scrubjay.api.actions.declaration import PREFIX
from scrubjay.api.actions.documentation import RESULT, describe_door
from scrubjay.api.actions.domains import DOMAINS
from scrubjay.api.actions.inventory import INVENTORY
from scrubjay.api.actions.jobs import JOBS
from scrubjay.api.actions.routing import ActionRoute, add_resources

RESOURCES = (*DOMAINS, *CRAWLER, *INVENTORY, *JOBS)

router = APIRouter()
_actions = APIRouter(
    route_class=ActionRoute,
    tags=["actions"],
    responses={
        "4XX": {
            "description": "The request is wrong or not allowed",
            "content": {"application/json": {"schema": RESULT}},
        }
    },
)
add_resources(_actions, RESOURCES)


@_actions.get(f"{PREFIX}/", summary="What there is", response_class=PlainTextResponse)
async def explain_door(_: Asking) -> PlainTextResponse:
    return PlainTextResponse(describe_door(RESOURCES))


router.include_router(_actions)
router.include_router(queries.router)
