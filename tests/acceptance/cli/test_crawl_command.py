"""`scrubjay crawl`, `fetch` and `extract`, through real processes, on a real site: also when they are killed."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import SCRUBJAY, environment, run
from tests.site import Reply, Site, running_site
from tests.site_pages import GeneratedPages
from warcio.archiveiterator import ArchiveIterator

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1"}
PATIENCE_SECONDS = 100
IN_FLIGHT = 2 * 16 + 16  # the window of a crawl with 16 requests at a time
ARTICLE = (
    "<html lang='en'><head><title>The jay | Garden</title></head><body><nav><a href='/'>Home</a></nav><article>"
    "<h1>The jay</h1><p>{}</p><pre><code class='language-python'>print('acorn')</code></pre></article></body></html>"
).format("A scrub jay hides acorns in autumn and remembers thousands of places where it hid them. " * 6)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


async def call(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run, *arguments, home=home, **(LOOPBACK | settings))


async def test_fetch_prints_one_page_as_markdown(site: Site, home: Path) -> None:
    site.add("/jay", ARTICLE)

    result = await call(home, "fetch", site.url + "/jay")

    assert (result.returncode, result.stderr) == (0, "")
    assert "remembers thousands of places" in result.stdout
    assert "```python\nprint('acorn')\n```" in result.stdout


async def test_fetch_as_json_says_how_and_what_else(site: Site, home: Path) -> None:
    site.add("/jay", ARTICLE)

    facts = json.loads((await call(home, "fetch", site.url + "/jay", "--json")).stdout)

    assert (facts["title"], facts["method"], facts["verdict"]) == ("The jay", "scrubjay", "content")
    assert facts["links"] == [site.url + "/"]
    assert facts["metadata"]["language"] == "en"


async def test_fetch_reads_fields(site: Site, home: Path) -> None:
    site.add("/jay", ARTICLE)

    result = await call(home, "fetch", site.url + "/jay", "--extract", "structured", "--field", "name=h1", "--json")

    assert json.loads(result.stdout)["fields"] == {"name": "The jay"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fetch", "http://10.0.0.1/"], "10.0.0.1 is not public"),
        (["fetch", "file:///etc/passwd"], "Only http and https"),
        (["fetch", "http://[oops/"], "not a web address"),
        (["crawl", "gopher://127.0.0.1/"], "Only http and https"),
        (["crawl", "http://127.0.0.1/", "--include", "(("], "include"),
        (["crawl", "http://127.0.0.1/", "--header", "nonsense"], "Name: value"),
        (["crawl", "http://127.0.0.1/", "--header", "Host: a"], "'Host' cannot be set"),
        (["crawl", "http://127.0.0.1/", "--resume"], "unfinished"),
        (["crawl", "http://127.0.0.1/", "--extract", "magic"], "extraction"),
        (["extract", "file", "/nothing/here.pdf"], "Cannot read"),
    ],
)
async def test_bad_input_is_one_sentence_and_no_traceback(home: Path, arguments: list[str], sentence: str) -> None:
    result = await call(home, *arguments)

    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


async def test_fetch_of_a_missing_page_fails_with_its_status(site: Site, home: Path) -> None:
    result = await call(home, "fetch", site.url + "/nothing")

    assert (result.returncode, "404" in result.stderr) == (1, True)


async def test_fetch_of_a_wall_says_so(site: Site, home: Path) -> None:
    site.add("/", "<html><body><div id='root'></div><script src='/app.js'></script></body></html>")

    result = await call(home, "fetch", site.url)

    assert (result.returncode, "empty" in result.stderr) == (1, True)


async def test_crawl_writes_markdown_json_lines_and_a_warc(home: Path, tmp_path: Path) -> None:
    out, jsonl, warc = tmp_path / "out", tmp_path / "pages.jsonl", tmp_path / "pages.warc.gz"
    async with running_site(pages=30) as site:
        result = await call(
            home, "crawl", site.url, "--delay-ms", "0", "--out", str(out), "--jsonl", str(jsonl), "--warc", str(warc)
        )
        generated = site.generated
    assert generated is not None
    assert (result.returncode, result.stderr) == (0, "")
    records = [json.loads(line) for line in jsonl.read_text().splitlines()]
    good = {record["url"]: record for record in records if record["success"]}
    assert {site.url + path for path in generated.paths} <= {url.rstrip("/") or url for url in good} | {site.url + "/"}
    page = good[site.url + "/page/7"]
    files = list(out.rglob("*.md"))
    assert len(files) == sum(1 for record in good.values() if not record["duplicate"])
    [file] = out.glob("*/page/7.md")
    assert f'url: "{site.url}/page/7"' in file.read_text()
    assert page["markdown"] in file.read_text()
    with warc.open("rb") as stream:
        archived = {
            record.rec_headers["WARC-Target-URI"]: record.content_stream().read()
            for record in ArchiveIterator(stream)
            if record.rec_type == "response"
        }
    assert archived[site.url + "/page/7"].startswith(b"<!")
    assert len(archived) == len(good)


async def test_a_crawl_of_nothing_fails_and_says_why(site: Site, home: Path) -> None:
    result = await call(home, "crawl", site.url + "/nothing", "--delay-ms", "0")

    assert result.returncode == 4
    assert "http_error 1" in result.stdout
    assert "Nothing was read" in result.stdout


async def test_a_second_crawl_finds_everything_unchanged(home: Path) -> None:
    async with running_site(pages=30) as site:
        options = ("crawl", site.url, "--delay-ms", "0", "--json")
        first = json.loads((await call(home, *options)).stdout)
        site.forget()
        second = json.loads((await call(home, *options)).stdout)

        assert (first["unchanged"], second["unchanged"]) == (0, second["pages"])
        assert second["pages"] == first["pages"]
        conditional = [request for request in site.requests if "if-none-match" in request.headers]
        assert len(conditional) >= second["pages"]


async def test_extract_explain_shows_every_block_with_its_score(site: Site, home: Path, tmp_path: Path) -> None:
    site.add("/jay", ARTICLE)
    file = tmp_path / "jay.html"
    file.write_text(ARTICLE)

    facts = json.loads((await call(home, "extract", "explain", site.url + "/jay", "--json")).stdout)
    shown = await call(home, "extract", "explain", str(file))
    printed = await call(home, "extract", "file", str(file))

    kept = [block["text"] for block in facts["blocks"] if block["kept"]]
    assert any("remembers thousands" in text for text in kept)
    assert all(0 <= block["score"] <= 1 for block in facts["blocks"])
    assert "remembers thousands" in shown.stdout.replace("\n", " ")
    assert "remembers thousands" in printed.stdout


@contextmanager
def crawling(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*SCRUBJAY, "--home", str(home), "crawl", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home.parent,
        env=environment(**LOOPBACK),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


async def until(count: int, site: Site) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(site.requests) < count:
        assert time.monotonic() < deadline, f"only {len(site.requests)} requests"
        await asyncio.sleep(0.02)


async def test_ctrl_c_stops_cleanly_and_resume_goes_on(home: Path) -> None:
    async with running_site(pages=200) as site:
        site.latency_seconds = 0.02
        options = (site.url, "--delay-ms", "0", "--quiet", "--concurrency", "8")
        with crawling(home, *options) as process:
            await until(60, site)
            process.send_signal(signal.SIGINT)
            output, _ = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 130
        assert "--resume" in output
        assert len(site.requests) < 200

        result = await call(home, "crawl", *options, "--resume")
        assert result.returncode == 0, result.stderr
        assert site.generated is not None
        assert set(site.generated.paths) <= set(site.counts)
        again = [path for path, count in site.counts.items() if count > 1]
        assert again in ([], ["/robots.txt"])  # a new process asks for that anew


def children_of(process_id: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == process_id:
                child = int(path.parent.name)
                found |= {child} | children_of(child)
    return found


async def test_ctrl_c_does_not_wait_for_a_long_crawl_delay_and_twice_stops_at_once(site: Site, home: Path) -> None:
    site.robots = "User-agent: *\nCrawl-delay: 60\n"
    site.add("/", ARTICLE.replace("</nav>", "<a href='/a'>a</a><a href='/b'>b</a></nav>"))
    options = (site.url, "--quiet", "--no-sitemaps", "--delay-ms", "0")
    with crawling(home, *options) as process:
        await until(1, site)
        await asyncio.sleep(1)
        process.send_signal(signal.SIGINT)
        output, _ = await asyncio.to_thread(process.communicate, timeout=20)
    assert (process.returncode, "--resume" in output) == (130, True)

    with crawling(home, *options, "--resume") as process:
        await until(len(site.requests) + 1, site)
        await asyncio.sleep(1)
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = await asyncio.to_thread(process.communicate, timeout=3)
    assert (process.returncode, "--resume" in output, "Traceback" in output) == (-signal.SIGTERM, True, False)
    deadline = time.monotonic() + 10
    while alive := [child for child in children if Path(f"/proc/{child}").exists()]:
        assert time.monotonic() < deadline, f"left behind: {alive}"
        await asyncio.sleep(0.1)


async def test_a_crawl_paused_elsewhere_while_it_is_resumed_is_left(site: Site, home: Path) -> None:
    site.robots = "User-agent: *\nCrawl-delay: 60\n"
    site.add("/", ARTICLE.replace("</nav>", "<a href='/a'>a</a><a href='/b'>b</a><a href='/c'>c</a></nav>"))
    options = (site.url, "--json", "--no-sitemaps", "--delay-ms", "0")
    with crawling(home, *options) as process:
        await until(1, site)
        await asyncio.sleep(1)
        process.send_signal(signal.SIGINT)
        output, _ = await asyncio.to_thread(process.communicate, timeout=20)
    job_id = json.loads(output)["job_id"]

    with crawling(home, *options, "--resume") as process:
        await until(len(site.requests) + 2, site)
        paused = await call(home, "jobs", "pause", job_id)
        assert paused.returncode == 0, paused.stderr
        output, _ = await asyncio.to_thread(process.communicate, timeout=20)
    assert (process.returncode, json.loads(output)["state"]) == (130, "paused")


async def test_what_is_not_text_is_printed_all_the_same(site: Site, home: Path) -> None:
    data = '{"@type": "Article", "headline": "a\\ud800b", "description": "c\\ud800d\\u0000"}'
    site.add("/", ARTICLE.replace("<head>", f"<head><script type='application/ld+json'>{data}</script>"))
    site.add("/data", '{"name": "a\\ud800b and some more words"}', "application/json")

    for arguments in (("/", "--json"), ("/",), ("/data",), ("/data", "--json")):
        result = await call(home, "fetch", site.url + arguments[0], *arguments[1:])
        assert "Traceback" not in result.stderr, result.stderr
        assert result.returncode == 0


@contextmanager
def site_process(pages: int, record: Path) -> Iterator[str]:
    """The site in a process of its own, so that what it records does not depend on ours."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.site", "--pages", str(pages), "--latency-ms", "2", "--record", str(record)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=30)


def recorded(record: Path) -> list[dict[str, Any]]:
    lines = record.read_text().splitlines() if record.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


@pytest.mark.slow
def test_a_crawl_of_2000_pages_killed_again_and_again_fetches_every_page_and_few_twice(
    home: Path, tmp_path: Path
) -> None:
    """`kill -9` at random moments: nothing is lost, and only what was in flight is asked for again."""
    dice, record, kills = random.Random(7), tmp_path / "requests.jsonl", 0
    with site_process(2000, record) as url:
        options = [url, "--delay-ms", "0", "--max-pages", "100000", "--quiet", "--json"]
        for target in (50, 400, 900, 1500):
            with crawling(home, *options, *(["--resume"] if kills else [])) as process:
                deadline = time.monotonic() + PATIENCE_SECONDS
                while len(recorded(record)) < target + dice.randrange(100):
                    assert process.poll() is None, process.communicate()[0]
                    assert time.monotonic() < deadline, f"only {len(recorded(record))} requests"
                    time.sleep(0.05)
                process.kill()
                kills += 1
        last = run("crawl", *options, "--resume", home=home, **LOOPBACK)
        counts = Counter(request["target"] for request in recorded(record))
    assert last.returncode == 0, last.stderr + last.stdout
    result = json.loads(last.stdout)
    pages = GeneratedPages(2000).paths
    assert [path for path in pages if path not in counts] == []
    twice = {path: count for path, count in counts.items() if count > 1 and path not in ("/robots.txt", "/sitemap.xml")}
    assert sum(count - 1 for count in twice.values()) <= kills * IN_FLIGHT
    assert result["pages"] + result["failed"] == result["fetched"]
    assert result["pages"] >= len(pages)
    assert result["left_in_queue"] == 0


async def test_a_crawl_is_handed_to_the_server_that_runs_in_the_folder(site: Site, home: Path) -> None:
    site.add("/", ARTICLE)
    server = subprocess.Popen(
        [*SCRUBJAY, "--home", str(home), "worker"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home.parent, env=environment(**LOOPBACK),
    )  # fmt: skip
    try:
        assert server.stdout is not None
        while "Working" not in await asyncio.to_thread(server.stdout.readline):
            assert server.poll() is None
        result = await call(home, "crawl", site.url, "--json", "--delay-ms", "0")
        assert (result.returncode, json.loads(result.stdout)["pages"]) == (0, 1)
    finally:
        server.terminate()
        await asyncio.to_thread(server.communicate, timeout=60)


async def test_an_unreachable_start_is_told_and_fails(home: Path) -> None:
    result = await call(home, "crawl", "http://127.0.0.1:9/", "--delay-ms", "0", "--ignore-robots", "--json")

    facts = json.loads(result.stdout)
    assert (result.returncode, facts["failed"], list(facts["errors"])) == (4, 1, ["connection"])


async def test_fetch_follows_redirects(site: Site, home: Path) -> None:
    site.pages["/old"] = Reply(status=301, headers={"Location": "/jay"})
    site.add("/jay", ARTICLE)

    facts = json.loads((await call(home, "fetch", site.url + "/old", "--json")).stdout)

    assert facts["url"] == site.url + "/jay"
