"""Which engine runs the jobs of a database."""

from scrubjay.queue.embedded import EmbeddedEngine
from scrubjay.queue.engine import JobEngine
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.database import Database


def open_engine(settings: Settings, database: Database, signals: JobSignals, kinds: JobKinds) -> JobEngine:
    if database.dialect == "postgresql":
        from scrubjay.queue.cluster import ClusterEngine  # a quarter of a second that other databases need not pay

        return ClusterEngine(settings, database, signals, kinds)
    return EmbeddedEngine(settings, database, signals, kinds)
