"""The arena: a whole cluster of real processes on one machine, with a relay before each thing it depends on."""

import json
import os
import random
import shutil
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import httpx
from tests import servers
from tests.chaos import disks, programs
from tests.chaos.disks import Disk
from tests.chaos.programs import Program
from tests.chaos.relay import Relay
from tests.plans import Planner
from tests.processes import LEASH, SCRUBJAY, environment
from tests.receiver import ReceiverProcess, receiver_process

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.plan import Plan
from scrubjay.settings import Settings
from scrubjay.storage.home import ADMIN_KEY_FILE

PAGES = 40
PACE = {"crawl_delay_ms": 80}  # so that a run takes some seconds, and a fault finds it in its middle
EVENTS = ["document_created", "document_updated", "document_deleted"]
# The disks are as small as they can be: filling one up should not take the machine's memory.
DISK_MEGABYTES = {"postgres": 400, "s3": 300, "worker": 40}


class Pages:
    """What the target site has: pages that come, change and go. This is the truth."""

    def __init__(self, file: Path, chance: random.Random, count: int = PAGES) -> None:
        self._file = file
        self._chance = chance
        self._number = 0
        self.texts: dict[str, str] = {}
        for _ in range(count):
            self._add()
        self._publish()

    def change(self, most: int = 5) -> None:
        for _ in range(self._chance.randrange(1, most)):
            self._add()
        for name in self._chance.sample(sorted(self.texts), self._chance.randrange(1, most)):
            self.texts[name] = self._write(name)
        for name in self._chance.sample(sorted(self.texts), self._chance.randrange(1, most)):
            del self.texts[name]
        self._publish()

    def _add(self) -> None:
        self._number += 1
        name = f"page{self._number}"
        self.texts[name] = self._write(name)

    def _write(self, name: str) -> str:
        word = f"word{self._chance.randrange(10**9)}"
        return f"The {name} says {word}, and it says {word} in a sentence that is long enough to be read. " * 4

    def _publish(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self.texts))
        fresh.replace(self._file)


class Arena:
    """Everything there is, by the name of the target: programs to harm, relays to disturb, disks to fill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: dict[str, Program] = {}
        self.relays: dict[str, Relay] = {}
        self.disks: dict[str, Disk] = {}
        self.no_disks = disks.why_not()
        self.key = ""
        self.jay: Scrubjay
        self.planner: Planner
        self.plan: Plan
        self.pages: Pages
        self.receiver: ReceiverProcess

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.relays['api'].port}"

    def fetches(self) -> list[str]:
        """What the site was asked for, in order."""
        lines = (self.folder / "requests.jsonl").read_text().splitlines()
        return [json.loads(line)["target"] for line in lines if line.endswith("}")]

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{program.tail()}" for name, program in self.programs.items())


def _disk(arena: Arena, stack: AsyncExitStack, name: str) -> Disk | None:
    if arena.no_disks:
        return None
    disk = Disk(name, DISK_MEGABYTES[name])
    stack.callback(disk.remove)
    arena.disks[name] = disk
    return disk


def _run(arena: Arena, stack: AsyncExitStack, name: str, program: Program, port: int) -> Relay:
    """Have it run, and a relay before it."""
    stack.callback(program.end)
    arena.programs[name] = program
    program.launch()
    relay = Relay(port)
    relay.start()
    stack.callback(relay.stop)
    arena.relays[name] = relay
    return relay


def _start_dependencies(arena: Arena, stack: AsyncExitStack, chance: random.Random) -> tuple[Settings, int]:
    """PostgreSQL, Redis, S3, models and the site; settings that lead to them through the relays."""
    folder = arena.folder
    arena.pages = Pages(folder / "pages.json", chance)
    (folder / "requests.jsonl").touch()
    database, database_port = programs.postgres(folder, _disk(arena, stack, "postgres"))
    blobs, s3 = programs.s3(folder, _disk(arena, stack, "s3"))
    stack.callback(_remove_sockets, blobs)
    cache, cache_port = programs.redis(folder)
    models, models_port = programs.double("models", folder)
    record = ["--pages", str(folder / "pages.json"), "--record", str(folder / "requests.jsonl")]
    site, site_port = programs.double("site", folder, *record)
    relays = {
        "postgres": _run(arena, stack, "postgres", database, database_port),
        "s3": _run(arena, stack, "s3", blobs, s3.port),
        "redis": _run(arena, stack, "redis", cache, cache_port),
        "models": _run(arena, stack, "models", models, models_port),
        "site": _run(arena, stack, "site", site, site_port),
    }
    for program in arena.programs.values():
        program.wait_ready()
    home_disk = _disk(arena, stack, "worker")
    home = (home_disk.seen if home_disk else folder) / "home"
    home.mkdir(mode=0o700)
    settings = Settings(
        home=home,
        database_url=f"postgresql://postgres@127.0.0.1:{relays['postgres'].port}/postgres",
        cache_url=f"redis://127.0.0.1:{relays['redis'].port}",
        blob_url=f"s3://{s3.make_bucket()}/bodies",
        s3_endpoint=f"http://127.0.0.1:{relays['s3'].port}",
        s3_access_key_id=s3.access_key_id,  # type: ignore[arg-type]
        s3_secret_access_key=s3.secret_access_key,  # type: ignore[arg-type]
        s3_allow_http=True,
        index_url="postgresql",
        embedder="tei",
        embedding_url=f"http://127.0.0.1:{relays['models'].port}",
        secret_key=b64encode(chance.randbytes(32)).decode(),  # type: ignore[arg-type]
        allowed_private_networks=(ip_network("127.0.0.0/8"),),
        extract_processes=1,
        database_pool_size=8,
        job_poll_seconds=0.2,
        worker_heartbeat_seconds=1,
        worker_silence_seconds=5,
        shutdown_grace_seconds=10,
        webhook_timeout_seconds=3,
    )
    return settings, database_port


def _remove_sockets(program: Program) -> None:
    """What the S3 server leaves in the folder of temporary files."""
    for option in program.command:
        if ".port.grpc=" in option:
            part, port = option.strip("-").split(".port.grpc=")
            Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)


def _scrubjay(arena: Arena, settings: Settings, name: str, *arguments: str) -> Program:
    disk = arena.disks.get("worker")
    home = disk.path / "home" if disk else settings.home
    secret = ("s3_access_key_id", "s3_secret_access_key", "secret_key")
    shown = {f"SCRUBJAY_{key.upper()}": getattr(settings, key).get_secret_value() for key in secret}
    command = [*(disk.inside if disk else ()), *LEASH, str(SCRUBJAY), "--home", str(home), *arguments]
    return Program(
        name, command, arena.folder, lambda: True, environment={**environment(settings), **shown},
        cwd=arena.folder, is_family=False,
    )  # fmt: skip


def api_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/health/ready", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@asynccontextmanager
async def open_arena(seed: int, workers: int = 2) -> AsyncIterator[Arena]:
    """A cluster at work. Whatever happens, nothing of it is left afterwards."""
    for name in [name for name in os.environ if name.startswith("SCRUBJAY_") and "TEST" not in name]:
        del os.environ[name]
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="sj-chaos-", dir=memory if os.access(memory, os.W_OK) else None))
    folder.chmod(0o755)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        arena = Arena(folder)
        arena.receiver = stack.enter_context(receiver_process(folder))
        settings, database_port = _start_dependencies(arena, stack, random.Random(seed))
        # This process looks at the database itself, whatever the weather is.
        direct = settings.model_copy(
            update={"database_url": f"postgresql://postgres@127.0.0.1:{database_port}/postgres"}
        )
        arena.jay = await stack.enter_async_context(open_scrubjay(direct))
        who = await arena.jay.access.open_as_admin(direct.home)
        arena.key = (direct.home / ADMIN_KEY_FILE).read_text().strip()
        (port,) = servers._free_ports(1)
        api = _scrubjay(arena, settings, "api", "serve", "--no-work", "--port", str(port))
        api.ready = lambda: api_ready(port)
        _run(arena, stack, "api", api, port)
        for number in range(1, workers + 1):
            name = "worker" if number == 1 else f"worker{number}"
            arena.programs[name] = _scrubjay(arena, settings, name, "worker")
            stack.callback(arena.programs[name].end)
            arena.programs[name].launch()
        api.wait_ready()
        arena.planner = Planner(arena.jay, who)
        await arena.jay.webhooks.create(who, url=f"{arena.receiver.url}/told", events=EVENTS, secret="known to both")
        await arena.jay.crawl_settings.set_host(who, "127.0.0.1", circuit_breaker_timeout_seconds=5, rate_limit_rps=200)
        arena.plan = await arena.planner.plan(f"http://127.0.0.1:{arena.relays['site'].port}/", web=PACE)
        try:
            yield arena
        except BaseException:
            print(arena.logs())
            raise
