"""The emergency brake: a setting and a switch, of which the stricter counts, for all watches of a deployment."""

from dataclasses import replace

from scrubjay.model.watching import Throttle, ThrottleLevel
from scrubjay.settings import Settings
from scrubjay.storage.database import Database
from scrubjay.storage.watches import Throttles

_ORDER = (ThrottleLevel.OFF, ThrottleLevel.SLOW, ThrottleLevel.STOP)
SLOWER = 4  # times as long between polls


async def read_brake(database: Database, settings: Settings) -> Throttle:
    """What holds now."""
    async with database.reading() as connection:
        switched = await Throttles(connection).read()
    configured = ThrottleLevel(settings.watch_throttle)
    if _ORDER.index(configured) > _ORDER.index(switched.level):
        return replace(switched, level=configured, reason="The setting 'watch_throttle' says so.")
    return switched
