"""Where a plan's documents go and how they are cut: its ingestion rule, and what the plan itself says."""

from collections.abc import Mapping
from typing import Any

from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.chunking import ChunkStrategy, read_chunking
from scrubjay.model.content import IngestionRule
from scrubjay.model.destination import Destination
from scrubjay.model.plan import Plan
from scrubjay.sources.web_config import chunking_of_config
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.database import Database
from scrubjay.storage.rules import IngestionRules

_STRATEGIES = {
    "fixedtokencount": ChunkStrategy.FIXED,
    "fixed": ChunkStrategy.FIXED,
    "sentencebased": ChunkStrategy.SENTENCE,
    "sentence": ChunkStrategy.SENTENCE,
    "regexbased": ChunkStrategy.REGEX,
    "regex": ChunkStrategy.REGEX,
    "paragraphbased": ChunkStrategy.STRUCTURE,
    "structure": ChunkStrategy.STRUCTURE,
    "rowgroupwithheaders": ChunkStrategy.TABLE_ROWS,
    "rowwithheaders": ChunkStrategy.TABLE_ROWS,
    "table_rows": ChunkStrategy.TABLE_ROWS,
    "wholelist": ChunkStrategy.WHOLE_LIST,
    "whole_list": ChunkStrategy.WHOLE_LIST,
}
STRATEGY_NAMES = ("FixedTokenCount", "Structure", "SentenceBased", "RegexBased", "RowGroupWithHeaders", "WholeList")


async def read_destination(database: Database, plan: Plan) -> tuple[Destination, str | None]:
    """Where the plan's documents go, and the rule that says so."""
    settings = plan.ingestion_settings
    if settings.ingestion_rule_id is None:
        chunking = settings.chunking or await _config_chunking(database, plan)
        return Destination.to(settings.collection_id, settings.tags, chunking), None
    try:
        async with database.reading() as connection:
            rule = await IngestionRules(connection).get(plan.tenant_id, settings.ingestion_rule_id)
    except NotFound as error:
        raise InvalidRequest(f"The plan's ingestion rule is gone: {error.message}", field="IngestionRuleId") from error
    return (
        Destination.to(settings.collection_id or rule.collection_id, (*rule.labels, *settings.tags), chunking_of(rule)),
        rule.id,
    )


async def _config_chunking(database: Database, plan: Plan) -> Mapping[str, Any] | None:
    """How the crawl config that a plan names has pages cut."""
    config_id = plan.repository_settings.get("crawl_config_id")
    if config_id is None:
        return None
    async with database.reading() as connection:
        config = await CrawlConfigs(connection).get(plan.tenant_id, str(config_id))
    return chunking_of_config(config).model_dump(mode="json", exclude_defaults=True)


def chunking_of(rule: IngestionRule) -> Mapping[str, Any] | None:
    """A rule's chunking in our own words; nothing said means the defaults."""
    said = {str(name).lower(): value for name, value in rule.chunking.items() if value is not None}
    if not said:
        return None
    name = str(said.get("strategy") or "structure")
    strategy = _STRATEGIES.get(name.lower())
    if strategy is None:
        known = ", ".join(STRATEGY_NAMES)
        raise InvalidRequest(f"Chunking.Strategy: '{name[:40]}' is not one of {known}.", field="Chunking.Strategy")
    size = int(said.get("fixedtokencount") or 256)
    overlap = said.get("overlapcount")
    if overlap is None and said.get("overlappercentage") is not None:
        overlap = int(size * float(said["overlappercentage"]))  # a share, whatever it is called
    options: dict[str, Any] = {"strategy": strategy.value, "chunk_size": size, "overlap": int(overlap or 0)}
    options["min_size"] = min(50, size)
    if said.get("rowgroupsize") is not None:
        options["row_group_size"] = int(said["rowgroupsize"])
    if said.get("contextprefix"):
        options["context_prefix"] = str(said["contextprefix"])
    if strategy is ChunkStrategy.REGEX:
        options["pattern"] = said.get("regexpattern")
    read_chunking(options, "Chunking")
    return options
