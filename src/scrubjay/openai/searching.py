"""Search in a vector store: our own, among the files whose attributes suit the filters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scrubjay.model.search import SearchRequest, SearchResult
from scrubjay.openai.filters import Matches, read_filters
from scrubjay.openai.ids import file_id_of
from scrubjay.openai.local_stores import LocalStores
from scrubjay.openai.protocol import Item, StoreSearch
from scrubjay.openai.shapes import name_of
from scrubjay.storage.documents import Documents
from scrubjay.storage.inventory import VectorStoreFiles

MAX_QUERY = 500  # characters that are searched for; the rest of a longer question is left out
PAGE = 100
MAX_PAGES = 20
MAX_FILTERED = 1000  # files that the index itself is asked for; more are picked out of what it finds


class LocalSearch(LocalStores):
    async def search(self, tenant_id: str, store_id: str, wanted: StoreSearch) -> Sequence[Item]:
        matches = None if wanted.filters is None else read_filters(wanted.filters)
        collection = await self.collection(tenant_id, store_id)
        await self.note_use(collection)
        async with self.parts.database.reading() as connection:
            attributes = await VectorStoreFiles(connection).with_attributes(tenant_id, collection.id)
        request = SearchRequest(
            query="", collection_ids=(collection.id,), min_score=wanted.score_threshold, limit=wanted.limit
        )
        best: dict[str, SearchResult] = {}
        for query in wanted.queries:
            asked = replace(request, query=query[:MAX_QUERY])
            for result in await self._matching(tenant_id, asked, matches, attributes):
                known = best.get(result.chunk_id)
                if known is None or known.score < result.score:
                    best[result.chunk_id] = result
        ranked = sorted(best.values(), key=lambda each: (-each.score, each.chunk_id))[: wanted.limit]
        return await self._results(tenant_id, ranked)

    async def _matching(
        self,
        tenant_id: str,
        request: SearchRequest,
        matches: Matches | None,
        attributes: Mapping[str, Mapping[str, Any]],
    ) -> Sequence[SearchResult]:
        if matches is None:
            return (await self.parts.search(tenant_id, request)).results
        suiting = {document_id for document_id, values in attributes.items() if matches(values)}
        if not matches({}):  # then only files with attributes can suit
            if not suiting:
                return []
            if len(suiting) <= MAX_FILTERED:
                narrow = replace(request, document_ids=tuple(sorted(suiting)))
                return (await self.parts.search(tenant_id, narrow)).results
            return await self._pick(tenant_id, request, lambda document_id: document_id in suiting)
        unsuited = attributes.keys() - suiting
        return await self._pick(tenant_id, request, lambda document_id: document_id not in unsuited)

    async def _pick(
        self, tenant_id: str, request: SearchRequest, suits: Callable[[str], bool]
    ) -> Sequence[SearchResult]:
        """The best that suit, out of as many pages of results as that takes."""
        found: list[SearchResult] = []
        asked = replace(request, limit=PAGE)
        for _ in range(MAX_PAGES):
            answer = await self.parts.search(tenant_id, asked)
            found += [each for each in answer.results if suits(each.document_id)]
            if len(found) >= request.limit or answer.next_cursor is None:
                break
            asked = replace(asked, cursor=answer.next_cursor)
        return found[: request.limit]

    async def _results(self, tenant_id: str, ranked: Sequence[SearchResult]) -> list[Item]:
        ids = {each.document_id for each in ranked}
        async with self.parts.database.reading() as connection:
            documents = await Documents(connection).by_ids(ids)
            records = await VectorStoreFiles(connection).by_documents(tenant_id, ids)
        results = []
        for each in ranked:
            document, record = documents.get(each.document_id), records.get(each.document_id)
            # A cached answer may be older than a deletion, by the moment that the index takes to follow.
            if document is None or document.is_purging or document.deleted_at is not None:
                continue
            results.append(
                {
                    "file_id": file_id_of(each.document_id if record is None else record.file_id),
                    "filename": name_of(document),
                    "score": each.score,
                    "attributes": {} if record is None else dict(record.attributes),
                    "content": [{"type": "text", "text": each.content}],
                }
            )
        return results
