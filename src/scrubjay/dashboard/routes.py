"""The dashboard's pages, all under `/ui`; the first one is at `/`, beside what programs get there."""

from fastapi import APIRouter

from scrubjay.dashboard import (
    assets,
    documents,
    home,
    jobs,
    plans,
    searching,
    settings,
    signing_in,
    watches,
    webhooks,
)

router = APIRouter(prefix="/ui", include_in_schema=False)
for part in (assets, signing_in, home, searching, documents, plans, jobs, watches, webhooks, settings):
    router.include_router(part.router)
