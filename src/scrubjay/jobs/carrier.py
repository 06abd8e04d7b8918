"""DBOS at arm's length: every run of a job is one DBOS workflow, `run_job(job_id, run)`, and nothing else is.

Our tables hold all state. DBOS adds its own durable record of each run, under a fixed application version so
that records outlive upgrades. Its queues are not used: docs/adr/0002 says why and gives the figures.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSConfig, SetWorkflowID, WorkflowSerializationFormat
from sqlalchemy import event, make_url

from scrubjay.errors import ConfigurationError
from scrubjay.jobs.carrying import Runner, workflow_id
from scrubjay.settings import Settings
from scrubjay.storage.sqlite import begin_write_ahead_log

APPLICATION = "scrubjay"
APPLICATION_VERSION = "1"  # never changes, so that an upgraded worker still finds old runs
THREADS = 16
LISTENER_SECONDS = 0.1

_runner: Runner | None = None


@DBOS.workflow(name="scrubjay.run_job", serialization_type=WorkflowSerializationFormat.PORTABLE)
async def run_job(job_id: str, run: int) -> str:
    """The one workflow. It returns how the run ended; failures are data in our tables, not exceptions here."""
    return "no worker" if _runner is None else await _runner(job_id, run)


class DbosCarrier:
    """Starts and stops DBOS in this process, and hands it runs."""

    def __init__(self, settings: Settings, worker_id: str) -> None:
        self._url = make_url(settings.resolved_jobs_database_url)
        self._worker_id = worker_id

    def launch(self, runner: Runner) -> None:
        """Blocking; takes a tenth of a second. DBOS allows one instance per process."""
        global _runner
        _runner = runner
        logging.getLogger("dbos").setLevel(logging.ERROR)
        DBOS(config=self._config())
        DBOS.listen_queues([])
        DBOS.launch()

    async def carry(self, job_id: str, run: int) -> str:
        """Run it as a workflow and wait for its end."""
        with SetWorkflowID(workflow_id(job_id, run)):
            return await run_job(job_id, run)

    async def forget(self, workflow_ids: Sequence[str]) -> None:
        """Delete the records of runs that no longer matter."""
        if workflow_ids:
            await DBOS.delete_workflows_async(list(workflow_ids))

    async def close(self) -> None:
        global _runner
        # DBOS had made its threads the event loop's own; without new ones, `to_thread` would fail from here on.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(DBOS.destroy)
        _runner = None

    def _config(self) -> DBOSConfig:
        config: DBOSConfig = {
            "name": APPLICATION,
            "application_version": APPLICATION_VERSION,
            "executor_id": self._worker_id,
            "log_level": "ERROR",
            "enable_otlp": False,
            "use_listen_notify": False,
            "max_executor_threads": THREADS,
            # Nothing here is ever notified; DBOS waits this long for its listener to end.
            "notification_listener_polling_interval_sec": LISTENER_SECONDS,
        }
        backend = self._url.get_backend_name()
        if backend == "sqlite":
            config["system_database_engine"] = _sqlite_engine(self._url)
        elif backend in ("postgresql", "postgres"):
            url = self._url.set(drivername="postgresql+psycopg")
            config["system_database_url"] = url.render_as_string(hide_password=False)
        else:
            raise ConfigurationError("The setting 'jobs_database_url' must be a SQLite or PostgreSQL URL.")
        return config


def _sqlite_engine(url: sqlalchemy.URL) -> sqlalchemy.Engine:
    """DBOS's own SQLite settings commit some tens of times per second; a write-ahead log does hundreds."""
    engine = sqlalchemy.create_engine(url.set(drivername="sqlite"))

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        begin_write_ahead_log(connection)
        for pragma in ("synchronous=NORMAL", "busy_timeout=30000", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
