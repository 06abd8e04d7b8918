"""The inventory on our own documents and index: a vector store is a collection, a file in it is a document."""

from scrubjay.openai.local_assistants import LocalAssistants
from scrubjay.openai.local_files import LocalFiles
from scrubjay.openai.local_models import LocalModels
from scrubjay.openai.local_store_files import LocalStoreFiles
from scrubjay.openai.searching import LocalSearch


class LocalBackend(LocalFiles, LocalStoreFiles, LocalSearch, LocalAssistants, LocalModels):
    name = "local"

    async def close(self) -> None:
        """Whoever made the parts closes them."""
