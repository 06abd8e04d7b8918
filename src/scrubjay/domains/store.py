"""Domains on disk: one folder per tenant below the storage folder, laid out as spec 002 says.

`<tenant>/domains/<domain>/domain.json` is the truth, and may be edited by hand at any time: it is read whenever it is
needed. `<tenant>/crawler/<domain>/` has what was crawled. Writing is atomic, and keeps the file that was there.
"""

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from scrubjay.domains.definition import Definition, Domain, parse_definition
from scrubjay.domains.names import check_name, is_safe_name
from scrubjay.errors import Conflict, InvalidRequest, NotFound, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_uuid

DEFINITION = "domain.json"
BACKUP = "domain.json.bak"
METADATA = "files_metadata.json"
RENAMED_FROM = ".renamed_from"  # a renaming that is not finished yet


class DomainStore:
    """Plain file work; whoever calls it from the event loop does so in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def domain_folder(self, tenant_id: str, domain_id: str) -> Path:
        return self.root / tenant_id / "domains" / domain_id

    def crawl_folder(self, tenant_id: str, domain_id: str) -> Path:
        return self.root / tenant_id / "crawler" / domain_id

    def all(self, tenant_id: str) -> list[Domain]:
        """Every domain of the tenant, by name; those that cannot be read are among them, and say why."""
        with explained():
            found = [self._look(tenant_id, folder) for folder in self._folders(tenant_id)]
        return sorted(found, key=lambda domain: domain.domain_id.lower())

    def read(self, tenant_id: str, domain_id: str) -> Domain:
        """The domain; NotFound when there is none, InvalidRequest when its file is broken."""
        domain = self.find(tenant_id, domain_id)
        if domain is None:
            raise NotFound(f"Domain '{domain_id}' not found.")
        if domain.problem:
            raise InvalidRequest(f"Domain '{domain_id}' cannot be read: {domain.problem}", domain_id=domain_id)
        return domain

    def find(self, tenant_id: str, domain_id: str) -> Domain | None:
        """The domain in whatever condition it is."""
        if not is_safe_name(domain_id):
            return None
        with explained():
            # Not by asking for the path: where case does not matter, that would find a domain of another name.
            names = {folder.name for folder in self._folders(tenant_id)}
            folder = self.domain_folder(tenant_id, domain_id)
            return self._look(tenant_id, folder) if domain_id in names else None

    def create(self, domain: Domain) -> Domain:
        check_name(domain.domain_id, "domain_id")
        self.require_free(domain.tenant_id, domain.domain_id)
        folder = self.domain_folder(domain.tenant_id, domain.domain_id)
        with explained():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (folder / DEFINITION).exists():
                raise Conflict(f"Domain '{domain.domain_id}' already exists.")
            write_atomically(folder / DEFINITION, _text(domain.definition))
        return domain

    def save(self, domain: Domain) -> Domain:
        """Write over the file that is there; that one is kept, and one that was broken is kept for good."""
        folder = self.domain_folder(domain.tenant_id, domain.domain_id)
        with explained():
            current = self._look(domain.tenant_id, folder)
            moment = utc_now().strftime("%Y-%m-%d_%H-%M-%S")
            backup = f"{DEFINITION}.broken-{moment}" if current.problem else BACKUP
            if (folder / DEFINITION).exists():
                write_atomically(folder / backup, (folder / DEFINITION).read_bytes())
            write_atomically(folder / DEFINITION, _text(domain.definition))
        return replace(domain, problem="")

    def rename(self, tenant_id: str, domain_id: str, new_id: str) -> None:
        """Give the domain another id. What a crash leaves undone is done when the domain is next looked at."""
        check_name(new_id, "domain_id")
        if new_id.lower() != domain_id.lower():
            self.require_free(tenant_id, new_id)
        with explained():
            folder = self.domain_folder(tenant_id, domain_id)
            write_atomically(folder / RENAMED_FROM, domain_id.encode())
            folder.rename(self.domain_folder(tenant_id, new_id))
            self._finish_renaming(tenant_id, new_id)

    def delete(self, tenant_id: str, domain_id: str) -> None:
        """Remove the domain and what was crawled for it. It is gone at once, even if its files take a while."""
        with explained():
            for folder in (self.domain_folder(tenant_id, domain_id), self.crawl_folder(tenant_id, domain_id)):
                if folder.exists():
                    doomed = folder.with_name(f".deleted-{new_uuid()}")
                    folder.rename(doomed)
                    shutil.rmtree(doomed)

    def metadata(self, tenant_id: str, domain_id: str) -> list[dict[str, object]]:
        """What `files_metadata.json` says of the files that were embedded; nothing if it cannot be read."""
        try:
            entries = json.loads((self.domain_folder(tenant_id, domain_id) / METADATA).read_text("utf-8-sig"))
        except (OSError, ValueError, RecursionError):
            return []
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    def _folders(self, tenant_id: str) -> Iterator[Path]:
        parent = self.root / tenant_id / "domains"
        if parent.is_dir():
            # Names that begin with a dot are ours, or an editor's.
            yield from (each for each in parent.iterdir() if each.is_dir() and not each.name.startswith("."))

    def _look(self, tenant_id: str, folder: Path) -> Domain:
        domain = Domain(tenant_id=tenant_id, domain_id=folder.name, definition=Definition())
        if not is_safe_name(folder.name):
            return replace(domain, problem="The folder's name cannot be the id of a domain; rename it.")
        if (folder / RENAMED_FROM).exists():
            self._finish_renaming(tenant_id, folder.name)
        try:
            return replace(domain, definition=parse_definition((folder / DEFINITION).read_bytes()))
        except FileNotFoundError:
            return replace(domain, problem="There is no domain.json in its folder.")
        except OSError as error:
            return replace(domain, problem=f"domain.json cannot be read: {error.strerror}.")
        except InvalidRequest as error:
            return replace(domain, problem=error.message)

    def require_free(self, tenant_id: str, domain_id: str) -> None:
        with explained():
            for folder in self._folders(tenant_id):
                if folder.name.lower() == domain_id.lower():
                    raise Conflict(f"Domain '{folder.name}' already exists.")

    def _finish_renaming(self, tenant_id: str, domain_id: str) -> None:
        marker = self.domain_folder(tenant_id, domain_id) / RENAMED_FROM
        old_id = marker.read_text().strip()
        if is_safe_name(old_id) and old_id != domain_id:
            old, new = self.crawl_folder(tenant_id, old_id), self.crawl_folder(tenant_id, domain_id)
            if old.exists() and not new.exists():
                old.rename(new)
            for path in new.rglob("*_map.csv"):
                _move_paths_in_map(path, old_id, domain_id)
            _move_paths_in_metadata(self.domain_folder(tenant_id, domain_id) / METADATA, old_id, domain_id)
        marker.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Whoever reads the file sees all of the old content or all of the new, also after a crash."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _text(definition: Definition) -> bytes:
    return (json.dumps(definition.dump(), indent=2, ensure_ascii=False) + "\n").encode()


def _move_paths_in_map(path: Path, old_id: str, new_id: str) -> None:
    """Paths in map files begin with the domain's id."""
    text = path.read_text("utf-8-sig")
    rows = list(csv.DictReader(text.splitlines(keepends=True)))
    if not any((row.get("file_relative_path") or "").startswith(f"{old_id}\\") for row in rows):
        return
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", delete=False, newline="", encoding="utf-8"
    ) as file:
        writer = csv.DictWriter(file, [str(name) for name in rows[0] if name is not None], extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "file_relative_path": _moved(row.get("file_relative_path"), old_id, new_id)})
    Path(file.name).replace(path)


def _move_paths_in_metadata(path: Path, old_id: str, new_id: str) -> None:
    try:
        entries = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return  # there is none, or somebody broke it: then the next embedding writes it anew
    if isinstance(entries, list):
        for entry in entries:
            if isinstance(entry, dict) and isinstance(entry.get("file_relative_path"), str):
                entry["file_relative_path"] = _moved(entry["file_relative_path"], old_id, new_id)
        write_atomically(path, json.dumps(entries, indent=2, ensure_ascii=False).encode())


def _moved(path: str | None, old_id: str, new_id: str) -> str:
    text = path or ""
    return f"{new_id}\\{text.removeprefix(old_id + chr(92))}" if text.startswith(f"{old_id}\\") else text


@contextmanager
def explained() -> Iterator[None]:
    """What the file system refuses, in a sentence instead of a stack."""
    try:
        yield
    except FileNotFoundError as error:
        raise Unavailable("The domain was moved or deleted meanwhile; try again.") from error
    except OSError as error:
        raise Unavailable(f"The storage folder cannot be used: {error.strerror}.") from error
