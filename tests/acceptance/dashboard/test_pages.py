"""Every page with real content: what it shows, to whom, and that nothing which was crawled comes back as markup."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.acceptance.dashboard.browsing import Browser
from tests.acceptance.dashboard.conftest import SignIn
from tests.acceptance.house import PAGES, House, app_of_nobody, places, some_ids
from tests.plans import NO_GUARD, ONCE, Planner, article, set_pages
from tests.site import Reply, Site

from scrubjay.dashboard import assets, rendering
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document
from scrubjay.model.plan import Plan
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.watching import Story
from scrubjay.services.documents import DocumentQuery, Upload
from scrubjay.services.rules import RuleValues
from scrubjay.storage.watches import Stories

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = """<script>alert("title")</script>"""
HOSTILE_TEXT = """# Hello <img src=x onerror=alert(1)>

[click](javascript:alert(1)) [data](data:text/html,x) [good](https://example.com/a?b=1&c="2")

![pixel](https://tracker.example/p.png) <b onclick=alert(1)>bold</b>

| a <script>alert(2)</script> | b |
|---|---|
| `<i>` | ~~gone~~ |
"""
LOOKS = [place for place in places(app_of_nobody()) if place.pattern.startswith(PAGES) and place.method == "GET"]
ORDERS = [
    place
    for place in places(app_of_nobody())
    if place.method == "POST" and place.pattern.startswith(PAGES) and "/sign" not in place.pattern
]
# What is followed live goes on without end; `test_browser.py` follows it.
STREAM = "/live"


async def owner_of(house: House, tenant: str) -> Principal:
    return await house.jay.access.create_tenant(house.admin, tenant)


async def add(house: House, who: Principal, text: str, **values: object) -> Document:
    upload = Upload(data=text.encode(), content_type="text/markdown", **values)  # type: ignore[arg-type]
    (document,) = await house.jay.documents.add(who, [upload])
    return document


def markup_of(page: str) -> Sequence[str]:
    """The names of elements that the page has, in its own markup."""
    return re.findall(r"<([a-z][a-z0-9]*)", page)


async def test_crawled_text_is_shown_and_never_obeyed(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    document = await add(
        workshop, who, HOSTILE_TEXT, title=HOSTILE, filename='"><svg onload=alert(3)>.md', tags=("evil",)
    )
    browser = await visiting(Scope.ADMIN, tenant)
    paths = ["/", "/ui/documents", "/ui/search?q=bold", f"/ui/search?q={HOSTILE}"]
    paths += [f"/ui/documents/{document.id}?view={view}" for view in ("text", "source", "chunks", "versions", "log")]
    paths += [f"/ui/documents/{document.id}?view=details", f"/ui/documents/{document.id}/diff", "/ui/jobs"]
    for path in paths:
        page = await browser.page(path)
        scripts = re.findall(r"<script[^>]*>", page)
        assert all(' src="/ui/static/' in script for script in scripts), path
        assert not {"svg", "iframe", "object", "b"} & set(markup_of(page)), path
        assert "onerror=alert(1)>" not in page, path
        assert not re.search(r'href="(javascript|data):', page), path
        assert not re.search(r'<img(?! src="/ui/static/)', page), path
    text = await browser.page(f"/ui/documents/{document.id}")
    assert "&lt;script&gt;alert(&#34;title&#34;)&lt;/script&gt;" in text
    assert '<a href="https://example.com/a?b=1&amp;c=%222%22" rel="noopener noreferrer nofollow"' in text
    assert '<span class="picture">pixel</span>' in text
    assert "tracker.example" not in text
    assert "<s>gone</s>" in text


async def test_an_address_that_is_no_web_page_is_no_link(workshop: House, visiting: SignIn, tenant: str) -> None:
    document = await add(workshop, await owner_of(workshop, tenant), "Words.", url="upload://javascript:alert(1)")
    page = await (await visiting(Scope.READ, tenant)).page(f"/ui/documents/{document.id}")
    assert "upload://javascript:alert(1)" in page
    assert 'href="upload:' not in page


async def make_everything(house: House, site: Site, who: Principal) -> tuple[Plan, dict[str, str]]:
    """A plan that ran twice over a site that changed in between, and an id for every parameter of a path."""
    planner = Planner(house.jay, who)
    set_pages(site, ["stays", "changes", "goes"], changes="The jay hides acorns in the north garden. " * 4)
    plan = await planner.plan(site.url + "/", name="Garden & <b>yard</b>")
    await planner.run(plan)
    site.pages.pop("/goes")
    site.add("/", article("home", "/stays", "/changes"))
    text = "The jay hides acorns in the south garden. " * 4
    site.add("/changes", Reply(article("changes", "/", text=text), headers={"ETag": '"new"'}))
    operation = await planner.run(plan)
    await planner.index_agrees()
    found = await house.jay.documents.page(who, DocumentQuery(plan_id=plan.id))
    changed = next(each for each in found.items if each.url.endswith("/changes"))
    ids = {"plan_id": plan.id, "operation_id": operation.id, "job_id": operation.job_id, "document_id": changed.id}
    return plan, {name: str(value) for name, value in ids.items()}


async def make_the_rest(house: House, who: Principal) -> dict[str, str]:
    """One of everything else that pages are about."""
    jay = house.jay
    watch = await jay.watches.create(who, url="http://127.0.0.1:1/feed.xml", name="Garden news", enabled=False)
    webhook = (await jay.webhooks.create(who, url="http://127.0.0.1:1/Garden")).webhook
    delivery = await jay.webhooks.test(who, webhook.id)
    key, _ = await jay.access.create_key(who, name="Garden key")
    collection = await jay.collections.create(who, name="Garden shelf")
    tag = await jay.collections.create_tag(who, "garden")
    rule = await jay.rules.create(who, RuleValues(name="Garden rule"))
    config = await jay.crawl_settings.create_config(who, name="Garden config")
    proxy = await jay.crawl_settings.create_proxy(who, name="Garden proxy", servers=[{"url": "http://127.0.0.1:1/"}])
    host = await jay.crawl_settings.set_host(who, "garden.example", is_blocked=True)
    domain = await jay.domains.create(who, {"domain_id": "GARDEN-DOMAIN", "name": "Garden domain"})
    async with jay.database.writing() as connection:
        story = await Stories(connection).add(
            Story(tenant_id=who.tenant_id, title="Garden story", breaking_at=utc_now())
        )
    return {
        "watch_id": watch.id,
        "webhook_id": webhook.id,
        "delivery_id": delivery.id,
        "key_id": key.id,
        "collection_id": collection.id,
        "tag_id": tag.id,
        "story_id": story.id,
        "rule_id": rule.id,
        "config_id": config.id,
        "proxy_id": proxy.id,
        "host": host.host,
        "domain_id": domain["domain_id"],
    }


async def test_every_page_shows_what_is_there_and_nothing_of_another_tenant(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    _, ids = await make_everything(workshop, site, who)
    ids = some_ids() | ids | await make_the_rest(workshop, who)
    reader, admin = await visiting(Scope.READ, tenant), await visiting(Scope.ADMIN, tenant)
    stranger = await visiting(Scope.ADMIN, f"{tenant} next door")
    for place in LOOKS:
        if place.pattern.endswith(STREAM) or place.pattern == "/ui/static/{asset}":
            continue
        path = place.path(ids)
        needs_write = place.pattern.endswith(("/new", "/edit", "/audit"))
        assert (await admin.get(path)).status_code == 200, place
        assert (await reader.get(path)).status_code == (403 if needs_write else 200), place
        theirs = await stranger.get(path)
        assert theirs.status_code == (404 if "{" in place.pattern else 200), place
        for word in ("Garden", "acorns", *(value for name, value in ids.items() if f"{{{name}}}" not in place.pattern)):
            assert word not in theirs.text or word in ("pause", "nobody", "style.css"), (place, word)
    for path in ("/ui/documents", "/ui/search?q=x"):
        for parameter in ("plan", "collection", "tag", "operation"):
            answer = await stranger.get(path, params={parameter: ids.get(f"{parameter}_id", "")})
            assert answer.status_code in (200, 404)
            assert "acorns" not in answer.text


async def test_no_form_works_for_who_may_only_look_or_is_of_another_tenant(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    _, ids = await make_everything(workshop, site, who)
    ids = some_ids() | ids | await make_the_rest(workshop, who)
    reader, stranger = await visiting(Scope.READ, tenant), await visiting(Scope.ADMIN, f"{tenant} next door")
    for place in ORDERS:
        path = place.path(ids)
        refused = await reader.post(path)
        assert (refused.status_code, "<h1>Not allowed</h1>" in refused.text) == (403, True), place
        if "{" in place.pattern:
            assert (await stranger.post(path)).status_code == 404, place
    assert (await workshop.jay.plans.get(who, ids["plan_id"])).name.startswith("Garden")
    assert (await workshop.jay.access.get_key(who, ids["key_id"])).is_active


async def test_the_first_page_counts_what_changed_in_a_day(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    plan, _ = await make_everything(workshop, site, await owner_of(workshop, tenant))
    page = await (await visiting(Scope.READ, tenant)).page("/")
    row = page.split(f'href="/ui/plans/{plan.id}"')[1].split("</tr>")[0]
    assert re.findall(r'class="delta (\w+)">([^<]+)<', row) == [("added", "+4"), ("changed", "~1"), ("removed", "−1")]
    assert "100 %" in row
    assert "Garden &amp; &lt;b&gt;yard&lt;/b&gt;" in page
    assert "Nothing is running." in page
    assert "Nothing failed." in page


async def test_an_empty_house_says_what_to_do_next(visiting: SignIn, tenant: str) -> None:
    writer, reader = await visiting(Scope.WRITE, tenant), await visiting(Scope.READ, tenant)
    assert 'href="/ui/plans/new"' in await writer.page("/")
    page = await reader.page("/")
    assert "may only look" in page
    assert 'href="/ui/plans/new"' not in page
    for path in ("/ui/documents", "/ui/jobs", "/ui/plans"):
        assert 'class="card empty"' in await reader.page(path)


async def test_search_marks_what_it_found_and_says_why(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    plan, ids = await make_everything(workshop, site, await owner_of(workshop, tenant))
    browser = await visiting(Scope.READ, tenant)
    page = await browser.page("/ui/search", params={"q": "acorns"})
    assert "<mark>acorns</mark>" in page
    assert "south" in page
    assert "north" not in page
    assert f'href="/ui/documents/{ids["document_id"]}?view=chunks#chunk-0"' in page
    assert "Why it is here" not in page
    assert "(read 20" in page.split('data-copy="')[1].split('"')[0]
    explained = await browser.page("/ui/search", params={"q": "acorns", "explain": "true"})
    assert '<th scope="row">keyword rank</th><td>1</td>' in explained
    for filters in ({"host": "elsewhere.example"}, {"q": '"acorns in the north"'}):
        assert "Nothing found" in await browser.page("/ui/search", params={"q": "acorns", **filters})
    assert "Nothing found" not in await browser.page("/ui/search", params={"q": "acorns", "period": "day"})
    assert plan.name


async def test_search_shows_text_and_not_the_marks_of_markdown(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    text = "## Winter <store>\n\n| bird | food |\n| --- | --- |\n| jay | **walnut** |\n\nSee [the walnuts](https://jay.example/w).\n"
    await workshop.jay.documents.add(who, [Upload(data=text.encode(), filename="winter.md")])
    await Planner(workshop.jay, who).index_agrees()
    browser = await visiting(Scope.READ, tenant)
    page = await browser.page("/ui/search", params={"q": "walnuts"})
    shown = re.sub(r"\s+", " ", page.split('class="excerpt"')[1].split(">", 1)[1].split("</p>")[0])
    assert shown == "| bird | food | | jay | <mark>walnut</mark> | See the <mark>walnuts</mark>."
    assert "Winter &lt;store&gt; | bird | food | | jay | walnut | See the walnuts." in page.split('data-copy="')[1]


async def test_more_results_go_on_where_the_last_page_ended(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    uploads = [
        Upload(data=f"Walnut number {n} lies under tree {n}.".encode(), filename=f"walnut-{n}.md") for n in range(23)
    ]
    await workshop.jay.documents.add(who, uploads)
    await Planner(workshop.jay, who).index_agrees()
    browser = await visiting(Scope.READ, tenant)
    path, seen = "/ui/search?q=walnut&mode=keyword", []
    for _ in range(3):
        page = await browser.page(path)
        seen += re.findall(r'<h2><a href="/ui/documents/(\w+)', page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        path = more.group(1).replace("&amp;", "&") if more else ""
    assert path == ""
    assert len(seen) == len(set(seen)) == 23


async def test_versions_are_compared_side_by_side_with_the_changed_word_marked(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    _, ids = await make_everything(workshop, site, await owner_of(workshop, tenant))
    browser = await visiting(Scope.READ, tenant)
    page = await browser.page(f"/ui/documents/{ids['document_id']}/diff")
    assert "<del>north</del>" in page
    assert "<ins>south</ins>" in page
    before = await browser.page(f"/ui/documents/{ids['document_id']}?version=1")
    assert "north garden" in before
    assert "This is version 1, not the newest" in before
    missing = await browser.page(f"/ui/documents/{ids['document_id']}/diff?from=1&to=9", status=404)
    assert "has no content version 9" in missing


async def test_files_are_uploaded_and_each_tells_what_became_of_it(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    browser = await visiting(Scope.WRITE, tenant)
    files = [("files", ("plums.md", b"# Plums\n\nBlue ones.", "text/markdown"))]
    answer = await browser.post("/ui/documents/upload", {"tags": "fruit, blue"}, files=files)
    assert answer.status_code == 303
    page = await browser.page(answer.headers["location"])
    assert "Taken in." in page
    assert 'class="badge tag"' in page
    both = [*files, ("files", ("empty.md", b"", "text/markdown"))]
    page = (await browser.post("/ui/documents/upload", files=both)).text
    assert "content is empty." in page
    assert "plums.md" in page
    nothing = await browser.post("/ui/documents/upload", {"tags": ""})
    assert (nothing.status_code, "Choose at least one file." in nothing.text) == (400, True)
    large = [("files", ("large.md", b"x " * 1_000_000, "text/markdown"))]
    assert (await browser.post("/ui/documents/upload", files=large)).status_code == 303
    reader = await visiting(Scope.READ, tenant)
    assert (await reader.post("/ui/documents/upload", files=large)).status_code == 403


async def test_a_deleted_document_can_be_restored(workshop: House, visiting: SignIn, tenant: str) -> None:
    document = await add(workshop, await owner_of(workshop, tenant), "Keep me.", filename="keep.md")
    browser = await visiting(Scope.WRITE, tenant)
    for verb, word in (("delete", "Deleted"), ("restore", "Restored.")):
        answer = await browser.post(f"/ui/documents/{document.id}/{verb}")
        assert word in await browser.page(answer.headers["location"])
    assert (await browser.post(f"/ui/documents/{document.id}/restore")).status_code == 409


def form_values(page: str) -> dict[str, str]:
    """What a browser would send of a form as it is."""
    values = {}
    for tag in re.findall(r"<input [^>]*>", page.split("</header>")[1]):
        name = re.search(r' name="([^"]+)"', tag)
        value = re.search(r' value="([^"]*)"', tag)
        if name and (' type="checkbox"' not in tag or " checked" in tag):
            values[name.group(1)] = value.group(1) if value else ""
    for name, options in re.findall(r'<select name="([^"]+)">(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r"<option(?: value=\"([^\"]*)\")? selected>([^<]*)", options)
        values[name] = (chosen.group(1) or chosen.group(2)) if chosen else ""
    return values


async def test_a_crawler_is_made_changed_run_and_deleted_by_forms(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    set_pages(site, ["one"])
    browser = await visiting(Scope.ADMIN, tenant)
    values = form_values(await browser.page("/ui/plans/new"))
    values |= {"name": "Mine", "source.start_url": site.url + "/", "schedule.interval_type": "OneTime"}
    values.pop("start")
    for wrong, said in (
        ({"source.max_depth": "a lot"}, "must be a whole number."),
        ({"source.start_url": "nonsense"}, "source.start_url"),
        ({"source.start_url": "http://10.0.0.1/"}, "notice bad"),
        ({"retention_days": "99"}, "retention_days must be between 0 and 14."),
        ({"retention_days": ""}, "must be a whole number."),
        ({"schedule.cron": "never"}, "notice bad"),
        ({"collection_id": "coll_0000000000000000000000000nope"}, "notice bad"),
    ):
        answer = await browser.post("/ui/plans", values | wrong)
        assert answer.status_code == 400, wrong
        assert said in answer.text, wrong
        assert 'value="Mine"' in answer.text, "what was filled in is still there"
    assert (await workshop.jay.plans.page(who)).total == 0

    answer = await browser.post("/ui/plans", values)
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"].split("?")[0]
    plan_id = path.rsplit("/", 1)[1]
    edit = form_values(await browser.page(f"{path}/edit"))
    edit |= {"name": "Ours", "source.crawl_delay_ms": "0", "source.password": "hunter2"}
    assert (await browser.post(f"{path}/edit", edit)).status_code == 303
    plan = await workshop.jay.plans.get(who, plan_id)
    assert (plan.name, plan.repository_settings["crawl_delay_ms"]) == ("Ours", 0)
    assert plan.process_deletions is False
    for page in (await browser.page(path), await browser.page(f"{path}/edit")):
        assert "hunter2" not in page
        assert plan.repository_settings["password"] not in page

    assert "Ours" in (await browser.post(f"{path}/check")).text
    looked = await browser.post(f"{path}/look")
    assert f"{site.url}/one" in looked.text
    answer = await browser.post(f"{path}/start")
    assert answer.headers["location"].startswith("/ui/jobs/job_")
    assert (await browser.post(f"{path}/stop")).status_code == 303
    writer = await visiting(Scope.WRITE, tenant)
    assert (await writer.post(f"{path}/delete")).status_code == 403
    assert (
        (await browser.post(f"{path}/delete", {"with_documents": "true"})).headers["location"].startswith("/ui/plans")
    )
    assert (await browser.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Feed", "url", "http://127.0.0.1:1/feed.xml"),
        ("File", "path", "/srv/files"),
        ("AmazonS3", "bucket", "acorns"),
        ("SharePoint", "site_url", "https://contoso.sharepoint.com/sites/jay"),
    ],
)
async def test_every_kind_of_source_has_a_form_that_keeps_what_it_shows(
    workshop: House, visiting: SignIn, tenant: str, kind: str, name: str, value: str
) -> None:
    browser = await visiting(Scope.WRITE, tenant)
    page = await browser.page(f"/ui/plans/new?kind={kind}")
    values = form_values(page) | {"name": kind, f"source.{name}": value, "schedule.interval_type": "OneTime"}
    values.pop("start")
    values.pop("is_active")
    answer = await browser.post("/ui/plans", values)
    assert answer.status_code == 303, answer.text
    plan_id = answer.headers["location"].split("?")[0].rsplit("/", 1)[1]
    who = await owner_of(workshop, tenant)
    before = await workshop.jay.plans.get(who, plan_id)
    assert (before.repository_type, before.repository_settings[name]) == (kind, value)
    edit = form_values(await browser.page(f"/ui/plans/{plan_id}/edit"))
    assert (await browser.post(f"/ui/plans/{plan_id}/edit", edit)).status_code == 303
    after = await workshop.jay.plans.get(who, plan_id)
    same = replace(after, updated_at=before.updated_at, next_crawl_at=before.next_crawl_at)  # as late as it was saved
    assert same == before, "saving what is shown changes nothing"


async def test_a_kind_of_source_that_nobody_knows_is_said_in_words(visiting: SignIn) -> None:
    assert "is not a repository type" in await (await visiting()).page("/ui/plans/new?kind=Gopher", status=400)


async def test_keys_are_shown_once_and_switched_and_deleted(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    admin, writer = await visiting(Scope.ADMIN, tenant), await visiting(Scope.WRITE, tenant)
    assert "API keys" not in await writer.page("/ui/settings")
    for wrong in ({"name": ""}, {"scope": "everything"}, {"rate_limit_rpm": "0"}, {"rate_limit_rpm": "many"}):
        answer = await admin.post("/ui/settings/keys", {"name": "robot", "scope": "read"} | wrong)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), wrong
    made = await admin.post("/ui/settings/keys", {"name": "robot <1>", "scope": "read", "rate_limit_rpm": "7"})
    (text,) = re.findall(r"<code class=\"break\">(sj_[^<]+)</code>", made.text)
    robot = await workshop.jay.access.recognise(text)
    assert (robot.tenant_id, robot.scopes) == (who.tenant_id, frozenset({Scope.READ}))
    page = await admin.page("/ui/settings")
    assert "robot &lt;1&gt;" in page
    assert text not in page
    assert (await admin.post(f"/ui/settings/keys/{robot.key_id}/switch")).status_code == 303
    assert (await workshop.jay.access.get_key(who, robot.key_id)).is_active is False
    assert (await admin.post(f"/ui/settings/keys/{robot.key_id}/delete")).status_code == 303
    mine = (await workshop.jay.access.authenticate_session(admin.client.cookies["scrubjay_session"])).key_id
    assert (await admin.post(f"/ui/settings/keys/{mine}/delete")).status_code == 409


async def test_collections_and_tags_are_made_and_removed(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    admin = await visiting(Scope.ADMIN, tenant)
    await admin.post("/ui/settings/collections", {"name": "Shelf", "description": "<b>tall</b>"})
    twice = await admin.post("/ui/settings/collections", {"name": "Shelf"})
    assert (twice.status_code, 'role="alert"' in twice.text) == (409, True)
    await admin.post("/ui/settings/tags", {"name": "blue"})
    page = await admin.page("/ui/settings")
    assert "&lt;b&gt;tall&lt;/b&gt;" in page
    (collection,), (tag,) = await workshop.jay.collections.all(who), await workshop.jay.collections.list_tags(who)
    document = await add(workshop, who, "In a shelf.", filename="shelf.md", collection_id=collection.id)
    held = await admin.post(f"/ui/settings/collections/{collection.id}/delete")
    assert (held.status_code, "has 1 documents" in held.text) == (409, True)
    await admin.post(f"/ui/settings/collections/{collection.id}/delete", {"force": "true"})
    await admin.post(f"/ui/settings/tags/{tag.id}/delete")
    assert not await workshop.jay.collections.all(who)
    assert not await workshop.jay.collections.list_tags(who)
    assert (await workshop.jay.documents.get(who, document.id)).collection_id is None


async def test_a_webhook_shows_its_secret_once_and_replays_a_delivery(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    writer = await visiting(Scope.WRITE, tenant)
    for wrong in ({"url": "nonsense"}, {"url": "http://10.0.0.1/"}, {"events": "everything"}):
        answer = await writer.post("/ui/webhooks", {"url": "http://127.0.0.1:1/x", "events": "completed"} | wrong)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), wrong
    made = await writer.post("/ui/webhooks", {"url": "http://127.0.0.1:1/x", "events": ["completed", "failed"]})
    (secret,) = re.findall(r"<code class=\"break\">([^<]+)</code>", made.text)
    (webhook,) = (await workshop.jay.webhooks.page(who)).items
    assert (await writer.post(f"/ui/webhooks/{webhook.id}/test")).status_code == 303
    page = await writer.page(f"/ui/webhooks/{webhook.id}")
    assert secret not in page
    assert '<span class="badge bad">failed</span>' in page
    (delivery,) = (await workshop.jay.webhooks.deliveries(who)).items
    again = await writer.post(f"/ui/webhooks/{webhook.id}/deliveries/{delivery.id}/replay")
    assert again.status_code == 303
    assert (await workshop.jay.webhooks.deliveries(who)).total == 2
    await writer.post(f"/ui/webhooks/{webhook.id}/switch")
    assert "Switch on" in await writer.page(f"/ui/webhooks/{webhook.id}")
    await writer.post(f"/ui/webhooks/{webhook.id}/delete")
    assert (await writer.get(f"/ui/webhooks/{webhook.id}")).status_code == 404


FEED = """<rss version="2.0"><channel><title>News</title><item><title>Jay &lt;script&gt;x()&lt;/script&gt; found</title>
<link>{url}/news/1</link><guid>1</guid></item></channel></rss>"""


async def test_a_source_is_watched_looked_at_and_left(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    site.pages.clear()
    site.add("/feed.xml", Reply(FEED.format(url=site.url), content_type="application/rss+xml"))
    writer = await visiting(Scope.WRITE, tenant)
    for wrong in ({"url": "nonsense"}, {"minutes": "often"}, {"minutes": "0"}):
        values = {"url": f"{site.url}/feed.xml", "minutes": "60"} | wrong
        answer = await writer.post("/ui/watches", values)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), wrong
    answer = await writer.post("/ui/watches", {"url": f"{site.url}/feed.xml", "minutes": "60"})
    path = answer.headers["location"].split("?")[0]
    await writer.post(f"{path}/poll")
    page = await writer.page(path)
    assert "<script>x" not in page
    assert "found" in page
    await writer.post(f"{path}/switch")
    assert '<span class="badge warn">off</span>' in await writer.page(path)
    assert (await writer.post(f"{path}/delete")).headers["location"] == "/ui/watches?done=deleted"
    assert "Nothing is watched yet" in await writer.page("/ui/watches")


async def test_long_names_and_many_rows_are_paged(workshop: House, visiting: SignIn, tenant: str) -> None:
    who = await owner_of(workshop, tenant)
    planner = Planner(workshop.jay, who)
    for number in range(52):
        await planner.plan("http://127.0.0.1/", name=f"{number} {'x' * 240}", schedule=ONCE, deletion=NO_GUARD)
    browser = await visiting(Scope.READ, tenant)
    first = await browser.page("/ui/plans")
    assert "1–50 of 52 crawlers" in first
    assert 'href="/ui/plans?offset=50"' in first
    assert "51–52 of 52 crawlers" in await browser.page("/ui/plans?offset=50")


@pytest.mark.parametrize("path", ["/ui/nothing", "/ui/documents/x", "/ui/jobs/x", "/ui/plans/x", "/ui/static/x"])
async def test_what_is_not_there_is_said_in_words(visiting: SignIn, path: str) -> None:
    page = await (await visiting()).page(path, status=404)
    assert "<h1>Not found</h1>" in page


@pytest.mark.parametrize(
    "path",
    ["/ui/jobs?offset=-1", "/ui/documents?offset=x", "/ui/search?q=" + "x" * 501, "/ui/search?q=a&cursor=nonsense"],
)
async def test_what_is_wrong_with_an_address_is_said_in_words(visiting: SignIn, path: str) -> None:
    answer = await (await visiting()).get(path)
    assert answer.status_code in (200, 400)
    assert 'role="alert"' in answer.text


async def test_pages_are_readable_without_scripts_and_say_how_to_get_them(
    visiting: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {name: asset for name, asset in assets.assets().items() if name in ("style.css", "app.js", "jay.svg")}
    monkeypatch.setattr(assets, "assets", lambda: own)
    rendering.templates.cache_clear()
    browser: Browser = await visiting()
    page = await browser.page("/ui/jobs")
    assert "htmx.min.js" not in page
    assert "tools/fetch_assets.py" in page
    assert (await browser.post("/ui/signout")).status_code == 303
    rendering.templates.cache_clear()
