"""`scrubjay migrate`."""

from scrubjay.cli.context import console, run, settings


def migrate() -> None:
    """Bring the database schema up to date. Safe to run any number of times, from any number of machines."""
    chosen = settings()
    from scrubjay.storage.database import connect_or_explain, open_database
    from scrubjay.storage.home import prepare_home
    from scrubjay.storage.schema import current_revision, require_current

    async def main() -> tuple[str | None, str | None]:
        prepare_home(chosen.home)
        database = open_database(chosen)
        try:
            await connect_or_explain(database)
            before = await current_revision(database)
            await require_current(database, auto_migrate=True)
            return before, await current_revision(database)
        finally:
            await database.close()

    before, after = run(main)
    if before == after:
        console.print(f"The schema is up to date (revision {after}).", highlight=False)
    else:
        console.print(f"Upgraded the schema from revision {before or 'none'} to {after}.", highlight=False)
