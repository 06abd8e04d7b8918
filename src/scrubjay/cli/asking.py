"""Asking the server that runs in the data folder, for commands that cannot do without what it has."""

import json
from ipaddress import ip_network
from typing import Any

from scrubjay.errors import InvalidRequest, ScrubjayError, Unavailable
from scrubjay.settings import Settings
from scrubjay.storage.home import ADMIN_KEY_FILE, find_server

ANYWHERE = tuple(ip_network(each) for each in ("0.0.0.0/0", "::/0"))  # where this folder's own server may be


async def ask_server(settings: Settings, path: str, body: dict[str, Any]) -> Any:
    """What the server in this folder answers; what it says against it is told in its words."""
    from scrubjay.app import open_network
    from scrubjay.crawler.fetcher import FetchRequest

    url = find_server(settings.home)
    if not url:
        raise Unavailable("A worker without a server has the index; search through `scrubjay serve` instead.")
    key = (settings.home / ADMIN_KEY_FILE).read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    own = settings.model_copy(update={"allowed_private_networks": ANYWHERE})
    async with open_network(own) as network, network.fetcher() as fetcher:
        asked = FetchRequest(url=url + path, method="POST", headers=headers, body=json.dumps(body).encode())
        try:
            response = await fetcher.fetch(asked)
            answer = json.loads(response.body)
        except (ScrubjayError, ValueError) as error:
            raise Unavailable(f"The server at {url} does not answer: {error}") from error
    if response.status != 200:
        raise InvalidRequest(str(answer.get("error") or f"The server answered with status {response.status}."))
    return answer
