"""Documents: the list, one of them in several views, what changed in it, and taking new ones in."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.comparing import side_by_side
from scrubjay.dashboard.identifiers import AnyId, DocumentId, Offset, Words
from scrubjay.dashboard.markdown import to_html
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Ordering
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.content import Document, DocumentSource, DocumentStatus
from scrubjay.model.plan import Plan
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.documents import DocumentQuery, Upload

router = APIRouter(include_in_schema=False)

ROWS = 50
COUNTED = 1000  # people need to know that there are many more, not how many
SHOWN_CHUNKS = 400
PLANS_TO_CHOOSE = 200
UPLOAD_WAIT_SECONDS = 8.0
VIEWS = {
    "text": "Text",
    "source": "Markdown",
    "chunks": "Chunks",
    "versions": "Versions",
    "log": "Processing log",
    "details": "Details",
}
# What the status of a document means for people, and how it is shown.
BADGES = {DocumentStatus.COMPLETED: "good", DocumentStatus.FAILED: "bad", DocumentStatus.TYPE_DETECTION_FAILED: "bad"}


@router.get("/documents")
async def list_documents(
    request: Request,
    jay: Jay,
    visitor: Looking,
    collection: AnyId = "",
    tag: AnyId = "",
    host: Words = "",
    status: Words = "",
    source: Words = "",
    plan: AnyId = "",
    operation: AnyId = "",
    deleted: bool = False,
    offset: Offset = 0,
) -> Response:
    """What was taken in, newest first."""
    who = visitor.who
    wanted = DocumentQuery(
        collection_id=collection or None,
        tag_id=tag or None,
        host=host.strip() or None,
        status=DocumentStatus(status) if status in {str(each) for each in DocumentStatus} else None,
        source=DocumentSource(source) if source in {str(each) for each in DocumentSource} else None,
        plan_id=plan or None,
        operation_id=operation or None,
        deleted=deleted,
        limit=ROWS,
        offset=offset,
        count_up_to=COUNTED,
    )
    page = await jay.documents.page(who, wanted)
    collections = await jay.collections.all(who)
    return show(
        request,
        "documents.html",
        visitor,
        page=page,
        badges=BADGES,
        document_tags=await jay.documents.tags_of(who, [each.id for each in page.items]),
        collections=collections,
        collection_names={each.id: each.name for each in collections},
        tags=await jay.collections.list_tags(who),
        plans=await _choose_plan(jay, who, plan),
        plan_names=await jay.plans.names(who, {each.plan_id for each in page.items if each.plan_id}),
        statuses=[str(each) for each in DocumentStatus],
        sources=[str(each) for each in DocumentSource],
        filtered=any((collection, tag, host, status, source, plan, operation, deleted)),
    )


async def _choose_plan(jay: Scrubjay, who: Principal, chosen: str) -> list[tuple[str, str]]:
    """The newest plans, and the one that was chosen."""
    newest = await jay.plans.newest_names(who, PLANS_TO_CHOOSE)
    named = {} if not chosen or chosen in newest else await jay.plans.names(who, [chosen])
    return [*newest.items(), *named.items()]


@router.get("/documents/upload")
async def choose_files(request: Request, jay: Jay, visitor: Looking) -> Response:
    """The form that takes files."""
    return show(request, "upload.html", visitor, collections=await jay.collections.all(visitor.who), outcomes=None)


@router.post("/documents/upload")
async def upload_files(request: Request, jay: Jay, order: Ordering) -> Response:
    """Take files in, each by itself: what is wrong with one keeps none of the others out."""
    require(order.who, Scope.WRITE)
    files = [each for each in order.form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    if not files:
        raise InvalidRequest("Choose at least one file.", field="files")
    tags = tuple(tag for tag in (part.strip() for part in order.text("tags").split(",")) if tag)
    uploads = [
        Upload(
            data=await file.read(),
            filename=file.filename,
            content_type=file.content_type,
            collection_id=order.text("collection") or None,
            tags=tags,
        )
        for file in files
    ]
    outcomes = await jay.documents.add_each(order.who, uploads, wait_seconds=UPLOAD_WAIT_SECONDS)
    if len(outcomes) == 1 and outcomes[0].document is not None and outcomes[0].error is None:
        return RedirectResponse(f"/ui/documents/{outcomes[0].document.id}?done=uploaded", status_code=303)
    return show(
        request,
        "upload.html",
        order.visitor,
        collections=await jay.collections.all(order.who),
        outcomes=[(file.filename, each) for file, each in zip(files, outcomes, strict=True)],
    )


@router.get("/documents/{document_id}")
async def show_document(
    request: Request,
    jay: Jay,
    visitor: Looking,
    document_id: DocumentId,
    view: Words = "text",
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> Response:
    """One document: what it says, its parts, its versions and what was done with it."""
    who = visitor.who
    document = await jay.documents.get(who, document_id)
    view = view if view in VIEWS else "text"
    collection = await jay.collections.get(who, document.collection_id) if document.collection_id else None
    return show(
        request,
        "document.html",
        visitor,
        document=document,
        badges=BADGES,
        view=view,
        views=VIEWS,
        version=version,
        collection=collection,
        plan=await _plan_of(jay, who, document),
        document_tags=(await jay.documents.tags_of(who, [document.id])).get(document.id, ()),
        **await _view(jay, who, document, view, version),
    )


async def _view(jay: Scrubjay, who: Principal, document: Document, view: str, version: int | None) -> dict[str, Any]:
    """What one view of a document needs, and nothing that the others do."""
    if view == "versions":
        return {"versions": await jay.documents.versions(who, document.id)}
    if view == "log":
        return {"lines": await jay.documents.log(who, document.id)}
    if view == "details":
        return {"original": document.original_sha256}
    if view == "chunks":
        chunks = await jay.documents.chunks(who, document.id, version=version)
        return {"chunks": chunks[:SHOWN_CHUNKS], "chunk_total": len(chunks)}
    if document.version == 0:
        return {"text": None, "html": Markup(""), "complete": True}
    _, text = await jay.documents.content(who, document.id, version=version)
    if view == "source":
        return {"text": text, "complete": True}
    html, complete = await asyncio.to_thread(to_html, text)
    return {"text": text, "html": html, "complete": complete}


async def _plan_of(jay: Scrubjay, who: Principal, document: Document) -> Plan | None:
    """The plan that brought it, unless it was deleted since."""
    if document.plan_id is None:
        return None
    try:
        return await jay.plans.get(who, document.plan_id)
    except NotFound:
        return None


@router.get("/documents/{document_id}/diff")
async def compare_versions(
    request: Request,
    jay: Jay,
    visitor: Looking,
    document_id: DocumentId,
    older: Annotated[int | None, Query(alias="from", ge=1, le=2**31 - 1)] = None,
    newer: Annotated[int | None, Query(alias="to", ge=1, le=2**31 - 1)] = None,
) -> Response:
    """Two versions side by side."""
    who = visitor.who
    document = await jay.documents.get(who, document_id)
    versions = await jay.documents.versions(who, document_id)
    diff = await jay.documents.diff(who, document_id, from_version=older, to_version=newer)
    rows, complete = await asyncio.to_thread(side_by_side, diff)
    return show(
        request, "diff.html", visitor, document=document, versions=versions, diff=diff, rows=rows, complete=complete
    )


@router.post("/documents/{document_id}/delete")
async def delete_document(jay: Jay, order: Ordering, document_id: DocumentId) -> Response:
    """End a document; it can be restored."""
    await jay.documents.delete(order.who, document_id)
    return RedirectResponse(f"/ui/documents/{document_id}?done=deleted", status_code=303)


@router.post("/documents/{document_id}/restore")
async def restore_document(jay: Jay, order: Ordering, document_id: DocumentId) -> Response:
    """Bring a deleted document back."""
    await jay.documents.restore(order.who, document_id)
    return RedirectResponse(f"/ui/documents/{document_id}?done=restored", status_code=303)
