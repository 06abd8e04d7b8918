"""Which scope each route asks for at least."""

from tests.acceptance.house import Place

from scrubjay.model.tenant import Scope

READ, WRITE, ADMIN = Scope.READ, Scope.WRITE, Scope.ADMIN
RANK = [READ, WRITE, ADMIN]

# The least scope for each route. A new route must be added here before these tests pass again.
NEEDED = {
    Place("GET", "/metrics"): READ,
    **{
        Place(method, path): scope
        for scope, method, paths in (
            (READ, "GET", "/jobs /jobs/events /jobs/{job_id} /jobs/{job_id}/events /job_status/{job_id}"),
            (READ, "GET", "/agents /tools /jobs/{job_id}/report"),
            (READ, "POST", "/call /mcp"),  # each tool asks for its own scope
            (WRITE, "POST", "/jobs /jobs/{job_id}/stop /jobs/{job_id}/pause /jobs/{job_id}/resume"),
            (WRITE, "POST", "/jobs/{job_id}/retry /stop_job/{job_id} /clear_jobs /unified_production_crawl"),
            (WRITE, "POST", "/api/crawl/start /jobs/{job_id}/retry-failed"),
            (WRITE, "DELETE", "/jobs/{job_id}"),
            (ADMIN, "POST", "/register"),
            (ADMIN, "DELETE", "/agents/{agent_name}"),
            (READ, "GET", "/watches /watches/throttle /watches/{watch_id} /watches/{watch_id}/items"),
            (READ, "GET", "/stories /stories/{story_id}"),
            (WRITE, "POST", "/watches /watches/{watch_id}/poll"),
            (WRITE, "PATCH", "/watches/{watch_id}"),
            (WRITE, "DELETE", "/watches/{watch_id}"),
            (ADMIN, "PUT", "/watches/throttle"),
        )
        for path in paths.split()
    },
    **{
        Place(method, f"/api/v1{path}"): scope
        for scope, wanted in {
            READ: {
                "GET": "/cache /collections /collections/{collection_id} /configs /configs/{config_id} "
                "/crawl/{job_id} /crawl/{job_id}/report /crawl/{job_id}/stream /discover/{job_id} "
                "/documents /documents/{document_id} "
                "/documents/{document_id}/chunks /documents/{document_id}/diff /documents/{document_id}/log "
                "/documents/{document_id}/original /documents/{document_id}/versions /domains/{host} /jobs "
                "/jobs/failed /jobs/{job_id} /jobs/{job_id}/events /proxies /proxies/{proxy_id} /sources "
                "/sources/{source_id} /sources/{source_id}/webhooks /stats /tags /tags/{tag_id} /webhooks "
                "/webhooks/deliveries /webhooks/deliveries/{delivery_id} /webhooks/{webhook_id}",
                "POST": "/discover/score /search /search/keyword /search/vector",
            },
            WRITE: {
                "POST": "/collections /configs /crawl /crawl/batch /crawl/deep /crawl/{job_id}/cancel "
                "/crawl/{job_id}/pause /crawl/{job_id}/resume /crawl/{job_id}/retry-failed "
                "/discover /documents /documents/batch "
                "/documents/upload /documents/{document_id}/reindex /documents/{document_id}/restore "
                "/documents/{document_id}/tags /domains/{host}/block /domains/{host}/unblock "
                "/jobs/{job_id}/{request} /proxies /proxies/{proxy_id}/test /sources /sources/{source_id}/trigger "
                "/sources/{source_id}/webhooks /tags /webhooks /webhooks/deliveries/{delivery_id}/replay "
                "/webhooks/{webhook_id}/rotate /webhooks/{webhook_id}/test",
                "PATCH": "/collections/{collection_id} /configs/{config_id} /proxies/{proxy_id} "
                "/sources/{source_id} /tags/{tag_id}",
                "PUT": "/domains/{host} /webhooks/{webhook_id}",
                "DELETE": "/configs/{config_id} /documents/{document_id} /documents/{document_id}/tags/{tag_id} "
                "/jobs/{job_id} /proxies/{proxy_id} /sources/{source_id} /tags/{tag_id} /webhooks/{webhook_id}",
            },
            ADMIN: {
                "GET": "/api-keys /api-keys/{key_id} /audit",
                "POST": "/api-keys /api-keys/{key_id}/rotate",
                "PATCH": "/api-keys/{key_id}",
                "DELETE": "/api-keys/{key_id} /cache /collections/{collection_id}",
            },
        }.items()
        for method, paths in wanted.items()
        for path in paths.split()
    },
}
