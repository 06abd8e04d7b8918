"""Nothing is stored that the contract suite does not know: every repository has an example there."""

from collections.abc import Iterator
from typing import Any

from tests.examples import EXAMPLES, repositories, with_unique_names

from scrubjay.storage.repository import Base, Repository


def subclasses(parent: type[Any]) -> Iterator[type[Any]]:
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_repository_has_an_example() -> None:
    ours = {each for each in subclasses(Repository) if each.__module__.startswith("scrubjay.") and hasattr(each, "row")}
    assert ours == set(repositories())
    assert {each.__name__ for each in ours.symmetric_difference(EXAMPLES)} == set()


def test_every_table_belongs_to_a_repository() -> None:
    without = {"document_tags", "search_epochs"}  # connects two nouns; counts for another
    assert set(Base.metadata.tables) - without == {each.row.__tablename__ for each in repositories()}


def test_names_are_unique_where_the_design_says_so() -> None:
    assert {each.__name__ for each in with_unique_names()} == {
        "Collections", "CrawlConfigs", "IngestionRules", "Proxies", "Tags", "Watches",
    }  # fmt: skip


def test_the_key_of_every_tenants_item_names_one_row_only() -> None:
    """A repository that knew its items by a part of their key would change those of other parents too."""
    for repository in repositories():
        if "tenant_id" in repository.table.c:
            table = Base.metadata.tables[repository.row.__tablename__]
            assert set(table.primary_key.columns.keys()) - {"tenant_id"} == set(repository.key), table.name
