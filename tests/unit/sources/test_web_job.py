"""A crawl's job in the database: nothing in it that authenticates can be read."""

import json

from scrubjay.crawler.web_crawler import seal_spec, unseal_spec
from scrubjay.model.crawl_spec import read_spec
from scrubjay.storage.secrets import SecretBox

HEADERS = {"X-Auth-Key": "hunter2", "Ocp-Apim-Subscription-Key": "hunter2", "Cookie": "s=hunter2", "X-Color": "blue"}


def test_whatever_authenticates_is_sealed_in_the_job_and_opens_again() -> None:
    box = SecretBox(bytes(32))
    spec = read_spec({"start_urls": ["https://jay:hunter2@example.com/"], "headers": HEADERS})

    sealed = seal_spec(spec, box)

    assert "hunter2" not in json.dumps(sealed)
    assert sealed["headers"]["X-Color"] == "blue"
    opened = unseal_spec(sealed, box)
    assert opened.headers == HEADERS
    assert opened.auth is not None
    assert (opened.auth.name, opened.auth.secret) == ("jay", "hunter2")
