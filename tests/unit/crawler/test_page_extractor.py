"""Strategies that need more than bytes: a language model on a small server of the real protocol, and who stands in."""

import json
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser import BrowserRenderer
from scrubjay.crawler.fetcher import Fetcher, Network
from scrubjay.crawler.page_extractor import LanguageModel, PageExtractor, _read_answer
from scrubjay.errors import ExtractionFailed
from scrubjay.extract import Extraction, ExtractOptions
from scrubjay.extract.crawl4ai import is_installed
from scrubjay.extract.pool import ExtractionPool

URL = "https://example.com/jays"
SENTENCE = "Scrub jays hide thousands of acorns each autumn and remember where most of them are buried. "
PAGE = f"""<html><head><title>Jays</title></head><body><main><h1>Jays</h1><p>{SENTENCE * 8}</p>
    <p>{SENTENCE * 12}</p></main></body></html>""".encode()


class Model:
    """Answers /chat/completions as it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.content: str | None = json.dumps({"title": "T", "markdown": SENTENCE, "fields": {"bird": "jay"}})
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        if self.status == 302:
            raise web.HTTPFound(f"{self.url}/elsewhere")
        message = {"role": "assistant", "content": self.content}
        return web.json_response({"choices": [{"index": 0, "message": message}]}, status=self.status)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    model = Model()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.handle)
    app.router.add_route("*", "/v1/elsewhere", model.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield model
    await runner.cleanup()


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    network = Network(EgressGuard([ip_network("127.0.0.0/8")]))
    async with network.fetcher() as fetcher:
        yield fetcher
    await network.close()


@pytest.fixture
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1) as pool:
        yield pool


async def ask(extractor: PageExtractor, strategy: str = "llm", data: bytes = PAGE, **fields: str) -> Extraction:
    options = ExtractOptions(strategy=strategy, fields=fields)
    return await extractor.extract(data, url=URL, content_type="text/html", options=options)


async def test_a_model_gives_content_title_and_fields(model: Model, fetcher: Fetcher, pool: ExtractionPool) -> None:
    endpoint = LanguageModel(url=model.url + "/", model="tiny", api_key="k-1")
    found = await ask(PageExtractor(pool, fetcher=fetcher, model=endpoint), bird="which bird")
    assert (found.method, found.title, found.markdown) == ("llm", "T", SENTENCE.strip())
    assert found.fields == {"bird": "jay"}
    assert found.metadata["model"] == "tiny"
    assert "fallback" not in found.metadata
    assert model.keys == ["Bearer k-1"]
    (asked,) = model.asked
    assert asked["model"] == "tiny"
    assert "which bird" in asked["messages"][1]["content"]
    assert "remember where most of them" in asked["messages"][1]["content"]
    assert "k-1" not in repr(endpoint)


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (500, "{}", "answered 500"),
        (302, "{}", "answered 302"),
        (200, "I cannot do that.", "cannot be read"),
        (200, "[1]", "not an object"),
        (200, None, "cannot be read"),
        (200, '{"markdown": ""}', "not drawn from the page"),
        (200, '{"markdown": "Buy cheap watches online today, contact seller immediately"}', "not drawn from the page"),
    ],
)
async def test_a_model_that_fails_or_makes_things_up_is_replaced_by_our_own(
    model: Model, fetcher: Fetcher, pool: ExtractionPool, status: int, content: str | None, reason: str
) -> None:
    model.status, model.content = status, content
    found = await ask(PageExtractor(pool, fetcher=fetcher, model=LanguageModel(url=model.url, model="tiny")))
    assert found.method not in ("llm", "none")
    assert "remember where most of them" in found.markdown
    assert found.metadata["fallback"].startswith("llm: ")
    assert reason in found.metadata["fallback"]
    assert len(model.asked) == 1


async def test_an_answer_in_a_code_fence_is_read(model: Model, fetcher: Fetcher, pool: ExtractionPool) -> None:
    model.content = f"```json\n{json.dumps({'title': None, 'markdown': SENTENCE})}\n```"
    found = await ask(PageExtractor(pool, fetcher=fetcher, model=LanguageModel(url=model.url, model="tiny")))
    assert (found.method, found.title, found.fields) == ("llm", "Jays", None)


async def test_a_model_inside_a_forbidden_network_is_not_asked(model: Model, pool: ExtractionPool) -> None:
    network = Network(EgressGuard())
    async with network.fetcher() as fetcher:
        found = await ask(PageExtractor(pool, fetcher=fetcher, model=LanguageModel(url=model.url, model="tiny")))
    await network.close()
    assert "not public" in found.metadata["fallback"]
    assert model.asked == []


async def test_a_page_without_content_is_not_sent_to_the_model(
    model: Model, fetcher: Fetcher, pool: ExtractionPool
) -> None:
    shell = b"<html><body><div id=root></div><script src=/m.js></script></body></html>"
    extractor = PageExtractor(pool, fetcher=fetcher, model=LanguageModel(url=model.url, model="tiny"))
    found = await ask(extractor, data=shell)
    assert found.verdict == "empty"
    assert model.asked == []


async def test_without_a_model_or_a_browser_our_own_stands_in_and_says_why(pool: ExtractionPool) -> None:
    extractor = PageExtractor(pool, browser=BrowserRenderer(EgressGuard(), chromium_path=Path("/no/chromium")))
    by_model = await ask(extractor, "llm")
    assert by_model.metadata["fallback"] == (
        "llm: No language model is configured (SCRUBJAY_LLM_URL, SCRUBJAY_LLM_MODEL)."
    )
    by_browser = await ask(PageExtractor(pool), "browser")
    assert by_browser.metadata["fallback"] == "browser: There is no browser here."
    assert by_browser.markdown == by_model.markdown == (await ask(extractor, "markdown")).markdown


@pytest.mark.skipif(is_installed(), reason="needs an environment without crawl4ai")
async def test_crawl4ai_falls_back_to_the_browser_and_then_to_our_own(pool: ExtractionPool) -> None:
    found = await ask(PageExtractor(pool), "crawl4ai")
    first, second = found.metadata["fallback"].split("; ")
    assert first.startswith("crawl4ai: The package crawl4ai is not installed")
    assert second == "browser: There is no browser here."
    assert "remember where most of them" in found.markdown


@pytest.mark.skipif(not is_installed(), reason="needs crawl4ai: pip install 'scrubjay[ai]'")
async def test_crawl4ai_turns_the_fetched_page_into_markdown(pool: ExtractionPool) -> None:
    found = await ask(PageExtractor(pool), "crawl4ai")
    assert (found.method, found.title) == ("crawl4ai", "Jays")
    assert "remember where most of them" in found.markdown
    assert "fallback" not in found.metadata


async def test_a_file_is_read_as_a_file_whatever_the_strategy(pool: ExtractionPool, tmp_path: Path) -> None:
    stored = tmp_path / "body"
    stored.write_bytes(b"a,b\n1,2\n")
    options = ExtractOptions(strategy="browser")
    found = await PageExtractor(pool).extract(stored, url="https://example.com/x.csv", options=options)
    assert found.method == "csv"
    assert found.metadata["fallback"] == "browser: the content is not a web page"


@pytest.mark.timeout(10)
def test_an_answer_of_blank_lines_takes_no_time() -> None:
    content = "```json" + "\n" * 200_000 + "x"
    with pytest.raises(ExtractionFailed):
        _read_answer(json.dumps({"choices": [{"message": {"content": content}}]}).encode())
