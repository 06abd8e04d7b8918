"""The inventory on our own documents and index: a vector store is a collection, a file in it is a document."""

from scrubjay.backend.local_assistants import LocalAssistants
from scrubjay.backend.local_files import LocalFiles
from scrubjay.backend.local_models import LocalModels
from scrubjay.backend.local_store_files import LocalStoreFiles
from scrubjay.backend.searching import LocalSearch


class LocalBackend(LocalFiles, LocalStoreFiles, LocalSearch, LocalAssistants, LocalModels):
    name = "local"

    async def close(self) -> None:
        """Whoever made the parts closes them."""
