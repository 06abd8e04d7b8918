"""`scrubjay plan`, `ops` and `changes`, through real processes, on a real site that changes."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.command_line import PATIENCE_SECONDS, SCRUBJAY, environment, run, serving, the_sentence
from tests.plans import article, set_pages
from tests.site import Reply, Site, running_site

from scrubjay.model.ids import ID_LENGTH

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1"}
SPRING = "Jays now hide their acorns in spring as well, and everybody wonders why they do. " * 4
SECRET = "correct-horse-battery"


class Desk:
    """A data folder with plans in it, the site that they are about, and commands."""

    def __init__(self, home: Path, site: Site) -> None:
        self.home = home
        self.site = site
        self.plan = ""
        self.told: dict[str, str] = {}

    async def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(run, *arguments, home=self.home, **(LOOPBACK | {"COLUMNS": "200"} | settings))

    async def good(self, *arguments: str, **settings: str) -> str:
        result = await self.run(*arguments, **settings)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    async def json(self, *arguments: str, **settings: str) -> Any:
        return json.loads(await self.good(*arguments, "--json", **settings))

    async def add(self, path: str, *options: str, **settings: str) -> str:
        made = await self.json("plan", "add", self.site.url + path, "--delay-ms", "0", *options, **settings)
        return str(made["id"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(site: Site, tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> Desk:
    """A plan that ran, whose site changed, and that ran again; tests only look at it."""
    home = tmp_path_factory.mktemp("desk") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    desk = Desk(home, site)
    set_pages(site, ["acorns", "owls", "snow"])
    desk.told["add"] = await desk.good("plan", "add", site.url, "--name", "birds", "--delete", "--delay-ms", "0")
    desk.plan = desk.told["add"].split()[0]
    desk.told["first run"] = await desk.good("plan", "run", "birds")
    set_pages(site, ["acorns", "snow", "spring"])
    site.add("/acorns", Reply(article("acorns", "/", text=SPRING), headers={"ETag": '"new"'}))
    desk.told["second run"] = await desk.good("plan", "run", desk.plan[:-4], "--json")
    return desk


@pytest.fixture
def own_desk(site: Site, home: Path) -> Desk:
    return Desk(home, site)


# --- Looking at what a plan does


async def test_add_prints_the_id_and_when_it_runs(desk: Desk) -> None:
    first, rest = desk.told["add"].split("\n", 1)

    assert re.fullmatch(rf"cplan_\w{{{ID_LENGTH - 6}}}", first)
    assert "every 24 hours" in rest
    assert f"scrubjay plan run {first}" in rest


async def test_run_says_what_came_of_it(desk: Desk) -> None:
    shown = dict(line.split(maxsplit=1) for line in desk.told["first run"].splitlines())
    second = json.loads(desk.told["second run"])

    assert {name: shown[name].strip() for name in ("result", "added", "failed")} == {
        "result": "Success", "added": "4", "failed": "0",
    }  # fmt: skip
    counts = {name: second[f"objects_{name}"] for name in ("added", "updated", "deleted", "unchanged", "failed")}
    assert counts == {"added": 1, "updated": 1, "deleted": 1, "unchanged": 2, "failed": 0}
    assert second["state"] == "Success"


async def test_ls_shows_each_plan_in_a_line_and_the_id_in_full_where_that_is_too_narrow(desk: Desk) -> None:
    head, line = (await desk.good("plan", "ls")).splitlines()
    [facts] = await desk.json("plan", "ls")

    assert head.split("  ")[0] == "name"
    for word in ("birds", "Web", desk.site.url, "Stopped", "every 24 hours", "Success", "in 24 hours", "4", desk.plan):
        assert word in line
    assert (facts["id"], facts["documents"], facts["last_operation"]["state"]) == (desk.plan, 4, "Success")
    narrow = await desk.good("plan", "ls", COLUMNS="60")
    assert narrow.startswith("birds  Web  Stopped\n")
    assert desk.plan in narrow


async def test_show_has_every_setting_also_those_nobody_set(desk: Desk) -> None:
    shown = await desk.good("plan", "show", "birds")
    facts = await desk.json("plan", "show", desk.plan)

    assert re.search(r"crawl_delay_ms +0", shown)
    assert re.search(r"max_missing_share +0\.3", shown)
    assert facts["repository_settings"]["max_depth"] == 5
    assert facts["process_deletions"] is True
    assert 0 <= facts["probably_stale"] < 0.1


async def test_ops_lists_the_runs_and_what_they_amount_to(desk: Desk) -> None:
    head, newest, _, summary = (await desk.good("ops", "birds")).splitlines()
    facts = await desk.json("ops", "birds", "--limit", "1")

    assert head.split() == ["state", "when", "took", "enumerated", "added", "changed", "removed", "failed", "withheld",
                            "message"]  # fmt: skip
    assert re.search(r"^Success .* s +4 +1 +1 +1 +0 +0", newest)
    assert re.fullmatch(r"2 runs, 0 failed, [\d.]+ s on average\.", summary)
    assert (len(facts["operations"]), facts["total"], facts["statistics"]["successful_runs"]) == (1, 2, 2)
    assert facts["operations"][0]["seconds"] > 0


async def test_changes_are_a_line_each_with_the_difference_if_asked_for(desk: Desk) -> None:
    shown = await desk.good("changes", "birds", "--diff")
    lines = (await desk.good("changes", "birds", "--json", "--diff", "--limit", "3")).splitlines()
    last = {each["change"]: each for each in map(json.loads, lines)}

    assert len(re.findall(r"^\+ ", shown, re.MULTILINE)) == 5
    assert re.search(rf"^- .*  owls  {desk.site.url}/owls$", shown, re.MULTILINE)
    assert re.search(r"^    \+Jays now hide", shown, re.MULTILINE)
    assert set(last) == {"added", "changed", "removed"}
    assert (last["added"]["url"], last["removed"]["url"]) == (f"{desk.site.url}/spring", f"{desk.site.url}/owls")
    assert "+Jays now hide" in last["changed"]["diff"]
    assert await desk.good("changes", "birds", "--since", "2100-01-01") == "Nothing changed.\n"
    assert len((await desk.good("changes", "birds", "--since", "7d", "--json")).splitlines()) == 7


async def test_check_exits_with_1_when_the_source_does_not_answer(desk: Desk) -> None:
    assert "HTTP status 200" in await desk.good("plan", "check", "birds")
    missing = await desk.add("/nothing", "--name", "nowhere", "--inactive")
    result = await desk.run("plan", "check", "nowhere", "--json")
    assert (result.returncode, json.loads(result.stdout)["works"]) == (1, False)
    failed = await desk.run("plan", "run", "nowhere")
    assert failed.returncode == 4
    assert "Nothing was read." in failed.stdout
    assert await desk.json("plan", "rm", missing, "--yes") == {"id": missing, "removed": True}


async def test_rm_asks_and_does_nothing_without_an_answer(desk: Desk) -> None:
    result = await desk.run("plan", "rm", "birds")

    assert result.returncode == 1
    assert "Remove the plan 'birds'?" in result.stderr
    assert await desk.json("plan", "show", "birds")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("plan", "add", "{site}", "--type", "Gopher"), "--type: 'Gopher' is not a repository type"),
        (("plan", "add", "{site}", "--cron", "at noon"), "--cron: 'at noon' is not a cron expression"),
        (("plan", "add", "{site}", "--every", "5 years"), "--every must be a number with m, h, d or w"),
        (("plan", "add", "{site}", "--every", "99999m"), "--every: Input should be less than or equal to 10080"),
        (("plan", "add", "{site}", "--every", "1h", "--budget", "99"), "only one of --every and --budget"),
        (("plan", "add", "{site}", "--include", "(("), "--include: this is not a usable pattern"),
        (("plan", "add", "{site}", "--set", "max_depth=900"), "--set max_depth: Input should be less"),
        (("plan", "add", "{site}", "--set", "depth=9"), "have no setting 'depth'"),
        (("plan", "add", "{site}", "--set", "password=x"), "--set: password is a secret"),
        (("plan", "add", "{site}", "--user", "ann"), "--user: its secret must be given"),
        (("plan", "add", "{site}", "--password-stdin", "--user", "a"), "--password-stdin: nothing came in"),
        (("plan", "add", "{site}", "--secret-env", "password=NOWHERE"), "variable NOWHERE is not set"),
        (("plan", "add", "{site}", "--type", "feed", "--max-depth", "3"), "--max-depth is not for plans"),
        (("plan", "add", "{site}", "--type", "feed", "--budget", "99"), "--budget:"),
        (("plan", "add", "{site}", "--export", "warc", "--no-originals"), "--export: warc needs the originals"),
        (("plan", "add", "{site}", "--jitter", "9999999w"), "--jitter must be a number"),
        (("plan", "add", "x" * 300), "SOURCE: This is not a web address"),
        (("plan", "add", "~nobody-at-all/notes"), "SOURCE: cannot find the home folder"),
        (("plan", "add", "example.org"), "SOURCE: This is not a web address"),
        (("plan", "add", "/etc"), "SCRUBJAY_FILE_ROOTS"),
        (("plan", "run", "cplan_unknown"), "There is no plan 'cplan_unknown'"),
        (("ops", "nothing"), "There is no plan 'nothing'"),
        (("changes", "birds", "--since", "yesterday"), "--since must be a date"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, tuple) else "",
)  # fmt: skip
async def test_bad_input_is_one_sentence_that_names_the_option(
    desk: Desk, arguments: tuple[str, ...], word: str
) -> None:
    the_sentence(await desk.run(*(each.format(site=desk.site.url) for each in arguments)), word)


@pytest.mark.parametrize(("option", "value"), [("--max-depth", "500"), ("--export", "pdf")])
async def test_a_value_that_an_option_does_not_have_is_explained_and_exits_with_2(
    desk: Desk, option: str, value: str
) -> None:
    result = await desk.run("plan", "add", desk.site.url, option, value)

    assert (result.returncode, result.stdout) == (2, "")
    assert option in result.stderr


# --- Changing things


async def test_edit_changes_what_is_given_and_secrets_are_never_shown(own_desk: Desk) -> None:
    plan = await own_desk.add(
        "/", "--name", "secretive", "--user", "ann", "--secret-env", "password=SITE", "--max-depth", "3",
        "--include", "a+", "--cron", "0 4 * * *", "--collection", "Birds", "--max-size", "1000", SITE=SECRET,
    )  # fmt: skip

    edited = await own_desk.json(
        "plan", "edit", "secretive", "--every", "2w", "--scope", "host", "--include", "", "--max-size", "0", "--delete",
        "--set", "user_agent=jay/1", "--grace-runs", "2", "--export", "markdown",
    )  # fmt: skip

    settings = edited["repository_settings"]
    assert (settings["username"], settings["password"], settings["max_depth"]) == ("ann", "(set)", 3)
    assert (settings["restrict_to_child_urls"], settings["restrict_to_subdomain"]) == (False, True)
    assert (settings["include_patterns"], settings["user_agent"]) == ([], "jay/1")
    assert (edited["runs"], edited["schedule"]["cron"]) == ("every 2 weeks", None)
    assert (edited["filter"]["maximum_size"], edited["deletion"]["grace_runs"]) == (None, 2)
    assert edited["ingestion_settings"]["collection_id"].startswith("coll_")
    assert edited["ingestion_settings"]["export"] == "markdown"
    shown = await own_desk.good("plan", "show", plan)
    assert re.search(r"password +\(set\)", shown)
    assert SECRET not in shown
    the_sentence(
        await own_desk.run("plan", "edit", plan, "--source", "http://127.0.0.2/"), "password must be given anew"
    )
    freed = await own_desk.json("plan", "edit", plan, "--no-auth", "--set", "username=")
    assert (freed["repository_settings"]["password"], freed["repository_settings"]["username"]) == (None, None)


async def test_looking_at_a_new_plan_does_not_begin_it(own_desk: Desk) -> None:
    set_pages(own_desk.site, ["acorns"])
    plan = await own_desk.add("/")

    table = await own_desk.good("plan", "enumerate", plan)
    objects = await own_desk.json("plan", "enumerate", plan, "--skip", "1")

    assert table.split()[:4] == ["key", "type", "size", "modified"]
    assert own_desk.site.url + "/acorns" in table
    assert len(objects) == 1
    [facts] = await own_desk.json("plan", "ls")
    assert (facts["state"], facts["last_operation"]) == ("Stopped", None)
    assert await own_desk.good("ops", plan) == "No runs yet; `scrubjay plan run` begins one.\n"


async def test_withheld_deletions_can_be_confirmed(own_desk: Desk) -> None:
    set_pages(own_desk.site, ["acorns", "owls", "snow"])
    plan = await own_desk.add("/", "--delete", "--max-missing-share", "0", "--min-missing-items", "1")
    await own_desk.good("plan", "run", plan)
    set_pages(own_desk.site, ["acorns"])

    withheld = await own_desk.good("plan", "run", plan)
    confirmed = await own_desk.json("plan", "run", plan, "--confirm-deletions")

    assert re.search(r"withheld +2", withheld)
    assert "Deletions are withheld: 2 of 4 objects are missing at once." in withheld
    assert (confirmed["objects_deleted"], confirmed["objects_withheld"]) == (2, 0)


async def test_a_folder_is_taken_in_where_the_operator_allows_it(own_desk: Desk, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "owls.md").write_text("# Owls\n\nThey hunt mice at night, and sleep through the day.\n")
    allowed = {"SCRUBJAY_FILE_ROOTS": str(tmp_path)}

    made = await own_desk.json("plan", "add", str(notes), "--name", "notes", "--suffix", ".md", "--once", **allowed)
    done = await own_desk.json("plan", "run", "notes", **allowed)
    refused = await own_desk.run("plan", "run", "notes")
    removed = await own_desk.good("plan", "rm", "notes", "--with-documents", "--yes")

    assert (made["repository_type"], made["source"], made["runs"]) == ("File", str(notes), "once")
    assert (done["state"], done["objects_added"]) == ("Success", 1)
    assert (refused.returncode, "SCRUBJAY_FILE_ROOTS" in refused.stdout) == (4, True)
    assert removed == "Removed.\n"
    assert await own_desk.json("ls") == []


async def test_ctrl_c_stops_the_run(own_desk: Desk) -> None:
    site = own_desk.site
    set_pages(site, [f"page{number}" for number in range(40)])
    plan = await own_desk.add("/", "--set", "crawl_delay_ms=200")
    site.forget()
    process = await asyncio.to_thread(
        subprocess.Popen,
        [*SCRUBJAY, "--home", str(own_desk.home), "plan", "run", plan],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**LOOPBACK),
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(site.requests) < 5:
            await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = await asyncio.to_thread(process.communicate, timeout=PATIENCE_SECONDS)

    assert (process.returncode, errors) == (130, "")
    assert "Canceled on request." in output
    [facts] = await own_desk.json("plan", "ls")
    assert (facts["state"], facts["last_operation"]["state"]) == ("Stopped", "Canceled")


async def test_a_server_runs_what_a_command_begins(own_desk: Desk) -> None:
    set_pages(own_desk.site, ["acorns", "owls"])
    plan = await own_desk.add("/", "--inactive")
    waiting = (await own_desk.good("plan", "run", plan, "--no-wait")).split()[0]
    assert waiting.startswith("cop_")

    def serve_and_run() -> subprocess.CompletedProcess[str]:
        with serving(own_desk.home, **LOOPBACK):
            return run("plan", "run", plan, "--json", home=own_desk.home, **LOOPBACK)

    done = json.loads((await asyncio.to_thread(serve_and_run)).stdout)

    assert (done["state"], done["objects_enumerated"]) == ("Success", 3)
