"""`/v2/domains`: knowledge domains."""

from scrubjay.api.actions.crawler import CRAWL_BUTTONS, DOMAIN_HOME
from scrubjay.api.actions.declaration import Action, Param, Resource, Type
from scrubjay.api.actions.verbs import by_verb
from scrubjay.model.tenant import Scope

MAX_JSON = 1_000_000
_SOURCE_ID = Param(name="source_id", about="A short name; it becomes a folder.", required=True)
_SITE_URL = Param(name="site_url", about="https://acme.sharepoint.com/sites/demo", label="Site address", required=True)
_FILTER = Param(name="filter", about="OData, if only some of it is wanted.")
_MORE = Param(name="more", label="Other settings", about="A JSON object, if this source has any.", type=Type.JSON)


def _sources(kind: str, label: str, about: str, *columns: Param) -> Param:
    return Param(
        name=f"{kind}_sources",
        label=label,
        about=about,
        type=Type.JSON,
        in_body=True,
        columns=(_SOURCE_ID, *columns, _MORE),
    )


_FIELDS = (
    Param(name="name", about="A name for people.", in_body=True),
    Param(name="description", about="What the domain is about.", max_length=10_000, in_body=True),
    Param(name="vector_store_name", about="Name of the domain's vector store.", in_body=True),
    Param(name="vector_store_id", about="An existing vector store; without one, one is made.", in_body=True),
    _sources(
        "file",
        "SharePoint document libraries",
        "Document libraries: [{source_id, site_url, sharepoint_url_part, filter}].",
        _SITE_URL,
        Param(name="sharepoint_url_part", about="/Shared Documents, or a folder in it.", label="Library or folder"),
        _FILTER,
    ),
    _sources(
        "list",
        "SharePoint lists",
        "SharePoint lists: [{source_id, site_url, list_name, filter}].",
        _SITE_URL,
        Param(name="list_name", about="The list's title.", required=True),
        _FILTER,
    ),
    _sources(
        "sitepage",
        "SharePoint site pages",
        "Site pages: [{source_id, site_url, sharepoint_url_part, filter}].",
        _SITE_URL,
        Param(name="sharepoint_url_part", about="/SitePages", label="Library of the pages"),
        _FILTER,
    ),
    _sources(
        "web",
        "Web sites",
        "Web sites: [{source_id, start_url, max_pages, include, …}].",
        Param(name="start_url", about="https://example.org/docs/", label="Start address", required=True),
        Param(name="max_pages", about="How many pages at most.", type=Type.NUMBER),
    ),
    Param(
        name="sources_json",
        about="All lists of sources in one JSON object.",
        max_length=MAX_JSON,
        in_body=True,
        in_form=False,
    ),
)


DOMAINS = (
    Resource(
        shorthand="L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
        path="domains",
        about="Knowledge domains to be used for crawling and semantic search",
        id_param="domain_id",
        columns=("domain_id", "name", "description", "error"),
        list=Action(
            run=lambda call: call.jay.domains.all(call.who),
            about="Every domain; one whose domain.json is broken says so in 'error'.",
        ),
        create=by_verb(
            "domains.create",
            object_param="domain_id",
            params=(Param(name="domain_id", about="The name of its folder.", required=True, in_body=True), *_FIELDS),
        ),
        get=Action(run=lambda call: call.jay.domains.get(call.who, call.values["domain_id"])),
        update=by_verb(
            "domains.update",
            object_param="domain_id",
            params=(
                Param(
                    name="domain_id",
                    about="Which domain; another id in the body (or in a form) renames it.",
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
        home=DOMAIN_HOME,
    ),
)
