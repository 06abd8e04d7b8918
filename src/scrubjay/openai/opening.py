"""Which backend the settings ask for."""

from scrubjay.crawler.relay import Relay
from scrubjay.errors import ConfigurationError
from scrubjay.openai.local import LocalBackend
from scrubjay.openai.local_parts import BackendDependencies
from scrubjay.openai.protocol import Backend
from scrubjay.openai.relay import Address, Upstream
from scrubjay.settings import Settings


def open_model(settings: Settings, relay: Relay) -> Upstream | None:
    if settings.llm_url is None:
        return None
    key = settings.llm_api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    return Upstream(relay, Address(base_url=settings.llm_url, noun="language model", headers=headers))


def open_backend(settings: Settings, relay: Relay, parts: BackendDependencies) -> Backend:
    if not settings.is_openai_remote:
        return LocalBackend(parts)
    own_key, azure_key = settings.openai_api_key, settings.azure_openai_api_key
    azure = settings.azure_openai_endpoint if azure_key is not None or own_key is None else None
    key = own_key if azure is None else azure_key
    if key is None:
        name = "OPENAI_API_KEY" if azure is None else "AZURE_OPENAI_API_KEY"
        raise ConfigurationError(f"The setting 'openai_backend' asks for a remote inventory; set SCRUBJAY_{name}.")
    try:
        # Imported here because the SDK takes a second to import, and is not installed everywhere.
        from scrubjay.openai.remote import RemoteBackend, open_client
    except ImportError as error:
        raise ConfigurationError("A remote inventory needs a package: pip install 'scrubjay[openai]'") from error
    secret = key.get_secret_value()
    if azure is None:
        headers = {"Authorization": f"Bearer {secret}"}
        address = Address(base_url=settings.openai_base_url, noun="OpenAI API", headers=headers)
    else:
        version = settings.azure_openai_api_version
        base = f"{azure.rstrip('/')}/openai" + ("/v1" if version is None else "")
        address = Address(base_url=base, noun="Azure OpenAI API", headers={"api-key": secret}, api_version=version)
    return RemoteBackend(open_client(relay, address, secret), Upstream(relay, address))
