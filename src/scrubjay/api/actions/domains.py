"""`/v2/domains`: knowledge domains."""

from typing import Any

from scrubjay.api.actions.crawler import CRAWL_BUTTONS
from scrubjay.api.actions.declaration import Action, Call, Param, Resource, Type
from scrubjay.api.actions.verbs import by_verb
from scrubjay.model.tenant import Scope

MAX_JSON = 1_000_000
_FIELDS = (
    Param(name="name", about="A name for people.", in_body=True),
    Param(name="description", about="What the domain is about.", max_length=10_000, in_body=True),
    Param(name="vector_store_name", about="Name of the domain's vector store.", in_body=True),
    Param(name="vector_store_id", about="An existing vector store; without one, one is made.", in_body=True),
    *(
        Param(name=f"{kind}_sources", about=about, type=Type.JSON, in_body=True)
        for kind, about in {
            "file": "Document libraries: [{source_id, site_url, sharepoint_url_part, filter}].",
            "list": "SharePoint lists: [{source_id, site_url, list_name, filter}].",
            "sitepage": "Site pages: [{source_id, site_url, sharepoint_url_part, filter}].",
            "web": "Web sites: [{source_id, start_url, max_pages, include, …}].",
        }.items()
    ),
    Param(name="sources_json", about="All lists of sources in one JSON object.", max_length=MAX_JSON, in_body=True),
)


async def _all(call: Call) -> Any:
    return await call.jay.domains.all(call.who)


async def _get(call: Call) -> Any:
    return await call.jay.domains.get(call.who, call.values["domain_id"])


DOMAINS = (
    Resource(
        shorthand="L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
        path="domains",
        about="Knowledge domains to be used for crawling and semantic search",
        id_param="domain_id",
        columns=("domain_id", "name", "description", "vector_store_id", "error"),
        list=Action(run=_all, about="Every domain; one whose domain.json is broken says so in 'error'."),
        create=by_verb(
            "domains.create",
            object_param="domain_id",
            params=(Param(name="domain_id", about="The name of its folder.", required=True, in_body=True), *_FIELDS),
        ),
        get=Action(run=_get),
        update=by_verb(
            "domains.update",
            object_param="domain_id",
            params=(
                Param(
                    name="domain_id",
                    about="In the address: which domain. In the body: its new id, which renames it.",
                    required=True,
                ),
                *_FIELDS,
            ),
            about="Changes what is given; lists of sources are replaced.",
        ),
        delete=by_verb(
            "domains.delete",
            object_param="domain_id",
            scope=Scope.ADMIN,
            about="Removes the domain and its local files; its vector store stays (see /v2/inventory/vector_stores).",
        ),
        buttons=CRAWL_BUTTONS,
        links=(
            ("Crawler", "/v2/crawler?format=ui"),
            ("Jobs", "/v2/jobs?format=ui"),
            ("Inventory", "/v2/inventory?format=ui"),
        ),
    ),
)
