"""What a process begins that works: indexing, jobs, and, unless it is a command, all that goes on by itself."""

from contextlib import AsyncExitStack

from scrubjay.app.container import Scrubjay
from scrubjay.app.resources import Ground
from scrubjay.documents.uploads import REINDEX_KIND
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.queue.engine import JobEngine
from scrubjay.queue.opening import open_engine
from scrubjay.storage.home import remove_old_job_records
from scrubjay.webhooks.publisher import Publisher

OPERATOR = Principal(tenant_id=DEFAULT_TENANT_ID, key_id="", scopes=frozenset({Scope.ADMIN}))


async def start_indexing(ground: Ground, stack: AsyncExitStack) -> None:
    await ground.catalog.start()
    if ground.is_alone:
        await ground.indexer.take_over()
    ground.indexer.start()
    stack.push_async_callback(ground.indexer.stop)


async def start_working(ground: Ground, jay: Scrubjay, stack: AsyncExitStack, *, keeping_time: bool) -> None:
    remove_old_job_records(ground.settings.home)
    # A command runs the job that it submits, whatever the workers of this machine are for.
    settings = ground.settings if keeping_time else ground.settings.model_copy(update={"worker_queues": ()})
    engine = open_engine(settings, ground.database, ground.signals, jay.kinds)
    publisher = Publisher(ground.database, ground.settings.webhook_retention_days)
    if keeping_time:
        await _start_all(ground, jay, engine, publisher, stack)
    else:
        stack.push_async_callback(publisher.catch_up)
        await engine.start()
        stack.push_async_callback(engine.stop)
        await jay.scheduler.recover()
    if await ground.catalog.is_outdated():
        await jay.access.ensure_default_tenant()  # whose job it is; a worker may be the first to start
        # The settings name another embedder: the index is built anew beside the one that serves.
        await jay.jobs.submit(OPERATOR, REINDEX_KIND, {}, unique_key=await ground.catalog.succession())


async def _start_all(
    ground: Ground, jay: Scrubjay, engine: JobEngine, publisher: Publisher, stack: AsyncExitStack
) -> None:
    """Jobs, and what goes on beside them: deliveries, job files, the clock of plans, and watches."""
    # Imported here, as no command needs them.
    from scrubjay.domains.job_keeper import JobKeeper
    from scrubjay.webhooks.dispatcher import Dispatcher

    settings, database, signals = ground.settings, ground.database, ground.signals
    keeper = JobKeeper(database, signals, jay.job_files, settings.job_retention_days)
    # Begun before jobs are and ended after them: what the last of them tell is at least in the queues.
    dispatcher = Dispatcher(database, signals, ground.network, publisher, jay.sender)
    await dispatcher.start(alone=ground.is_alone)
    stack.push_async_callback(dispatcher.stop)
    stack.push_async_callback(keeper.stop)
    await engine.start()
    stack.push_async_callback(engine.stop)
    await keeper.start()
    await jay.scheduler.start()
    stack.push_async_callback(jay.scheduler.stop)
    await jay.watcher.start(alone=ground.is_alone)
    stack.push_async_callback(jay.watcher.stop)
