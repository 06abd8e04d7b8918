"""The dashboard's pages, all under `/ui`; the first one is at `/`, beside what programs get there."""

from fastapi import APIRouter

from scrubjay.dashboard import (
    alerts,
    assets,
    audit,
    crawl_configs,
    documents,
    domains,
    home,
    hosts,
    job_history,
    jobs,
    operations,
    plans,
    proxies,
    rules,
    searching,
    settings,
    signing_in,
    watches,
    webhooks,
)

router = APIRouter(prefix="/ui", include_in_schema=False)
for part in (
    assets,
    signing_in,
    home,
    searching,
    documents,
    plans,
    operations,
    job_history,
    jobs,
    watches,
    webhooks,
    settings,
):
    router.include_router(part.router)
for part in (domains, alerts, rules, crawl_configs, proxies, hosts, audit):
    router.include_router(part.router)
