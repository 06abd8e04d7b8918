"""Enumeration files: what an operation saw and did, written for people and for the API (spec 000 §5.2.8).

Nothing reads them back to decide anything. They are written in one piece or not at all.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from scrubjay.model.plan import Change, Fate, LedgerEntry, Operation, OperationItem, WorkState
from scrubjay.model.source import SourceItem
from scrubjay.plans.report import is_failed_object, is_warning
from scrubjay.storage.database import Database
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operation_items import PROBLEM_STATES, OperationItems

_PRESENT = (Fate.PRESENT, Fate.FAILED)

Entries = Callable[[], AsyncIterator[dict[str, Any]]]
Choice = Callable[[WorkState, str | None], bool]


def _any(state: WorkState, reason: str | None) -> bool:
    return True


def _is_skipped(state: WorkState, reason: str | None) -> bool:
    """Denied by policy, left out on purpose, or cut by a limit."""
    return not is_failed_object(state, reason) and not is_warning(state, reason)


@dataclass(frozen=True, slots=True)
class EnumerationFiles:
    folder: Path
    database: Database

    def path_of(self, plan_id: str, operation_id: str) -> Path:
        return self.folder / plan_id / f"{operation_id}.json"

    async def write(self, operation: Operation) -> Path:
        """Write the file of an operation that is over. OSError when the disk does not take it."""
        path = self.path_of(operation.plan_id, operation.id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        waiting = path.with_suffix(".part")
        try:
            with waiting.open("w", encoding="utf-8") as file:
                await self._write(file, operation)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            waiting.replace(path)
        except BaseException:
            waiting.unlink(missing_ok=True)
            raise
        return path

    async def _write(self, file: TextIO, operation: Operation) -> None:
        statistics: dict[str, int] = {}
        file.write("{\n")
        for name, counted, entries in self._parts(operation):
            number, size = await _write_list(file, name, entries)
            if counted is not None:
                statistics |= {f"{counted}Count": number, f"{counted}Bytes": size}
        file.write(f'  "Statistics": {json.dumps(statistics)}\n}}\n')

    def _parts(self, operation: Operation) -> list[tuple[str, str | None, Entries]]:
        def items(change: Change | None = None, *states: WorkState, chosen: Choice = _any) -> Entries:
            return lambda: self._items(operation, change, states, chosen)

        return [
            ("AllFiles", "Total", lambda: self._ledger(operation, touched=None)),
            ("Added", "Added", items(Change.ADDED)),
            ("Changed", "Changed", items(Change.CHANGED)),
            ("Deleted", "Deleted", items(Change.DELETED)),
            ("Unchanged", None, lambda: self._unchanged(operation)),
            ("Success", "Success", items(None, WorkState.DONE)),
            ("Failed", "Failed", items(None, *PROBLEM_STATES, chosen=is_failed_object)),
            ("Warnings", "Warnings", items(None, *PROBLEM_STATES, chosen=is_warning)),
            ("Skipped", "Skipped", items(None, *PROBLEM_STATES, chosen=_is_skipped)),
        ]

    async def _items(
        self, operation: Operation, change: Change | None, states: tuple[WorkState, ...], chosen: Choice
    ) -> AsyncIterator[dict[str, Any]]:
        after = ""
        while True:
            async with self.database.reading() as connection:
                page = await OperationItems(connection).listing(operation.id, change=change, states=states, after=after)
            if not page:
                return
            for item in page:
                # Success means that it was taken in.
                if change is None and item.change in (Change.DELETED, Change.UNCHANGED):
                    continue
                if chosen(item.state, item.reason):
                    yield describe(item)
            after = page[-1].key_hash

    async def _unchanged(self, operation: Operation) -> AsyncIterator[dict[str, Any]]:
        async for entry in self._ledger(operation, touched=False):
            yield entry
        async for entry in self._items(operation, Change.UNCHANGED, (WorkState.DONE,), _any):
            yield entry

    async def _ledger(self, operation: Operation, *, touched: bool | None) -> AsyncIterator[dict[str, Any]]:
        """What the source has: all of it, or what this operation did not have to touch."""
        after = ""
        while True:
            async with self.database.reading() as connection:
                page = await Ledger(connection).listing(operation.plan_id, fates=_PRESENT, after=after)
            if not page:
                return
            for entry in page:
                if touched is None or (entry.last_operation_id == operation.id) is touched:
                    yield describe(entry)
            after = page[-1].key_hash

    def remove(self, plan_id: str, operation_id: str) -> None:
        self.path_of(plan_id, operation_id).unlink(missing_ok=True)

    def remove_plan(self, plan_id: str) -> None:
        folder = self.folder / plan_id
        if folder.is_dir():
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()


async def _write_list(file: TextIO, name: str, entries: Entries) -> tuple[int, int]:
    number, size = 0, 0
    file.write(f'  "{name}": [')
    async for entry in entries():
        file.write("," if number else "")
        file.write("\n    " + json.dumps(entry, ensure_ascii=False))
        number += 1
        size += entry.get("ContentLength") or 0
    file.write("\n  ],\n" if number else "],\n")
    return number, size


def describe(item: OperationItem | LedgerEntry) -> dict[str, Any]:
    """One object as the specification writes it; what is not known is left out."""
    return _facts(
        item,
        MD5Hash=item.content_md5,
        SHA1Hash=item.content_sha1,
        SHA256Hash=item.content_sha256,
        DocumentId=item.document_id,
        Error=item.error,
        Reason=getattr(item, "reason", None),
        HttpStatus=getattr(item, "http_status", None),
    )


def describe_item(item: SourceItem) -> dict[str, Any]:
    return _facts(item, MD5Hash=item.md5, SHA1Hash=item.sha1, SHA256Hash=item.sha256)


def _facts(item: OperationItem | LedgerEntry | SourceItem, **more: Any) -> dict[str, Any]:
    modified = item.last_modified_at
    facts = {
        "Key": item.key,
        "ContentType": item.content_type,
        "ContentLength": item.content_length,
        "ETag": item.etag,
        "LastModifiedUtc": None if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%S.%f"),
        **more,
    }
    return {name: value for name, value in facts.items() if value is not None}
