"""All tables in one place, so that migrations and tests see the whole schema by importing one module."""

from scrubjay.storage import (
    chunks,
    collections,
    configs,
    contents,
    crawled_pages,
    deliveries,
    document_logs,
    documents,
    domains,
    embeddings,
    frontier,
    generations,
    hosts,
    ingest_queue,
    inventory,
    job_events,
    jobs,
    keys,
    ledger,
    operation_items,
    operations,
    outbox,
    plans,
    proxies,
    rules,
    schedules,
    sign_ins,
    site_memories,
    tags,
    tenants,
    turns,
    versions,
    vocabulary,
    watches,
    webhooks,
    workers,
)
from scrubjay.storage.repository import Base

NOUNS = (
    tenants, keys, sign_ins, jobs, job_events, workers, schedules, collections, tags, rules, plans, operations,
    ledger, configs, hosts, proxies, frontier, documents, versions, document_logs, chunks, embeddings, outbox,
    watches, webhooks, deliveries, domains, inventory, crawled_pages, site_memories,
    contents, generations, ingest_queue, vocabulary, operation_items, turns,
)  # fmt: skip
metadata = Base.metadata
