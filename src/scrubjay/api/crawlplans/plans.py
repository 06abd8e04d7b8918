"""Plans over `/v1.0`: make, read, change, start, stop, check, look into and remove."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from scrubjay.api.crawlplans.lists import EnvelopeResponse, Listed
from scrubjay.api.crawlplans.repository import read_repository, show_repository
from scrubjay.api.crawlplans.routing import door_router, say_member
from scrubjay.api.crawlplans.schemas import Blankable, Line, Name, Range, Reference, Wire, WireRequest, any_case
from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.api.rag.schemas import field_values
from scrubjay.model.plan import (
    DeletionSettings,
    ExportFormat,
    FilterSettings,
    IngestionSettings,
    IntervalType,
    Plan,
    PlanState,
    PlanValues,
    ScheduleSettings,
)
from scrubjay.services.plans import RANGES

router = door_router("/crawlplans", "crawl plans")

PlanId = Annotated[str, Depends(identifier("cplan", "plan", "plan_id"))]
MediaType = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=255)]
Cron = Annotated[Annotated[str, StringConstraints(max_length=200)] | None, Blankable]


class IngestionBody(WireRequest):
    ingestion_rule_id: Reference = None
    store_in_s3: StrictBool = Field(True, description="Whether the bytes are kept, in Scrubjay's own store of bodies.")
    s3_bucket_name: Line = None
    collection_id: Reference = None
    export: Annotated[ExportFormat | None, any_case(ExportFormat), Blankable] = Field(
        None, description="Write the documents to files after each run. `warc` needs `StoreInS3`."
    )

    @classmethod
    def of(cls, settings: IngestionSettings) -> "IngestionBody":
        values = settings.model_dump()
        export = values.pop("export")
        return cls.model_construct(
            store_in_s3=values.pop("store_original"),
            s3_bucket_name=values.pop("bucket_name"),
            export=None if export is ExportFormat.NONE else export,
            **values,
        )

    def settings(self) -> IngestionSettings:
        values = self.model_dump()
        return IngestionSettings(
            store_original=values.pop("store_in_s3"),
            bucket_name=values.pop("s3_bucket_name"),
            export=values.pop("export") or ExportFormat.NONE,
            **values,
        )


class ScheduleBody(WireRequest):
    interval_type: Annotated[IntervalType, any_case(IntervalType)] = IntervalType.HOURS
    interval_value: Annotated[StrictInt, Range.of(ScheduleSettings, "interval_value")] = 24
    cron: Cron = Field(None, description="Five fields in UTC; then the interval does not count.")
    jitter_seconds: Annotated[StrictInt, Range.of(ScheduleSettings, "jitter_seconds")] = 0
    requests_per_day: Annotated[StrictInt, Range.of(ScheduleSettings, "requests_per_day")] | None = None


class FilterBody(WireRequest):
    object_prefix: Line = None
    object_suffix: Line = None
    allowed_content_types: list[MediaType] | None = Field(None, max_length=100, examples=[["text/html", "text/*"]])
    minimum_size: Annotated[StrictInt, Range(0)] = 0
    maximum_size: Annotated[StrictInt, Range(0)] | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> "FilterBody":
        if self.maximum_size is not None and self.maximum_size < self.minimum_size:
            raise PydanticCustomError("sizes", "MaximumSize must not be smaller than MinimumSize")
        return self


class DeletionBody(WireRequest):
    max_missing_share: Annotated[StrictFloat, Range.of(DeletionSettings, "max_missing_share")] = 0.3
    min_missing_items: Annotated[StrictInt, Range.of(DeletionSettings, "min_missing_items")] = 20
    grace_runs: Annotated[StrictInt, Range.of(DeletionSettings, "grace_runs")] = 0


class CrawlPlanRequest(WireRequest):
    """A plan, said completely: what is left out has its default. Secrets that are left out stay as they were."""

    name: Name = "My crawl plan"
    repository_type: Annotated[str, StringConstraints(max_length=40)] | None = None
    ingestion_settings: IngestionBody = Field(default_factory=IngestionBody)
    repository_settings: dict[str, Any] = Field(default_factory=dict, examples=[{"StartUrl": "https://example.com/"}])
    schedule: ScheduleBody = Field(default_factory=ScheduleBody)
    filter: FilterBody = Field(default_factory=FilterBody)
    process_additions: StrictBool = True
    process_updates: StrictBool = True
    process_deletions: StrictBool = False
    max_drain_tasks: Annotated[StrictInt, Range(*RANGES["max_drain_tasks"])] = 8
    retention_days: Annotated[StrictInt, Range(*RANGES["retention_days"])] = 7
    max_failed_share: Annotated[StrictFloat, Range(*RANGES["max_failed_share"])] = 0.5
    deletion: DeletionBody = Field(default_factory=DeletionBody)
    is_active: StrictBool = True

    def values(self) -> PlanValues:
        kind, settings = read_repository(self.repository_type, self.repository_settings)
        parts = {
            "repository_type": kind,
            "repository_settings": settings,
            "ingestion_settings": self.ingestion_settings.settings(),
            "schedule": ScheduleSettings(**self.schedule.model_dump()),
            "filter": FilterSettings(**self.filter.model_dump()),
            "deletion": DeletionSettings(**self.deletion.model_dump()),
        }
        return PlanValues(**dict(self) | parts)


class CrawlPlanResponse(Wire):
    id: str
    tenant_id: str
    name: str
    repository_type: str
    ingestion_settings: IngestionBody
    repository_settings: dict[str, Any] = Field(description="Of the repository type's own shape; never with secrets.")
    schedule: ScheduleBody
    filter: FilterBody
    process_additions: bool
    process_updates: bool
    process_deletions: bool
    max_drain_tasks: int
    retention_days: int
    max_failed_share: float = Field(description="A run in which a larger share of objects fails has failed.")
    deletion: DeletionBody
    is_active: bool
    state: PlanState
    last_crawl_start_utc: datetime | None = Field(None, validation_alias="last_crawl_start_at")
    last_crawl_finish_utc: datetime | None = Field(None, validation_alias="last_crawl_finish_at")
    last_crawl_success: bool | None = None
    next_crawl_utc: datetime | None = Field(None, validation_alias="next_crawl_at")
    created_utc: datetime = Field(validation_alias="created_at")
    last_update_utc: datetime = Field(validation_alias="updated_at")
    expected_staleness: float | None = Field(
        None, description="The share of documents that have probably changed at the source; only of a single plan."
    )


class ConnectivityResponse(Wire):
    success: bool
    message: str


def plan_response(plan: Plan, expected_staleness: float | None = None) -> CrawlPlanResponse:
    parts = {
        "ingestion_settings": IngestionBody.of(plan.ingestion_settings),
        "repository_settings": show_repository(plan),
        "schedule": ScheduleBody.model_construct(**plan.schedule.model_dump()),
        "filter": FilterBody.model_construct(**plan.filter.model_dump(mode="json")),
        "deletion": DeletionBody.model_construct(**plan.deletion.model_dump()),
        "expected_staleness": expected_staleness,
    }
    return CrawlPlanResponse.model_validate(field_values(plan) | parts)


@router.put("", status_code=201, response_model=CrawlPlanResponse)
async def create_plan(jay: Jay, who: Who, body: CrawlPlanRequest) -> CrawlPlanResponse:
    """Make a plan. Passwords, keys and tokens are sealed at once, and never shown again."""
    return plan_response(await jay.plans.create(who, body.values()))


@router.get("", response_model=EnvelopeResponse[CrawlPlanResponse])
async def list_plans(jay: Jay, who: Who, listed: Listed) -> EnvelopeResponse[CrawlPlanResponse]:
    page = await jay.plans.page(who, limit=listed.limit, offset=listed.offset, newest_first=listed.newest_first)
    return listed.answer(page, plan_response)


@router.head("/{plan_id}", include_in_schema=False)
async def look_for_plan(jay: Jay, who: Who, plan_id: PlanId) -> None:
    """Whether there is such a plan."""
    await jay.plans.get(who, plan_id)


@router.get("/{plan_id}", response_model=CrawlPlanResponse)
async def get_plan(jay: Jay, who: Who, plan_id: PlanId) -> CrawlPlanResponse:
    plan = await jay.plans.get(who, plan_id)
    return plan_response(plan, round(await jay.plans.staleness(who, plan_id), 4))


@router.put("/{plan_id}", response_model=CrawlPlanResponse)
async def update_plan(jay: Jay, who: Who, plan_id: PlanId, body: CrawlPlanRequest) -> CrawlPlanResponse:
    """Say a plan anew. A run that is under way goes on as it was begun."""
    return plan_response(await jay.plans.update(who, plan_id, body.values()))


@router.delete("/{plan_id}", status_code=204)
async def delete_plan(
    jay: Jay,
    who: Who,
    plan_id: PlanId,
    documents: Annotated[bool, Query(description="Remove its documents too, for good.")] = False,
) -> None:
    """Stop a plan and remove it, with its operations and their files."""
    await jay.plans.delete(who, plan_id, with_documents=documents)


@router.post("/{plan_id}/start", response_model=CrawlPlanResponse)
async def start_plan(
    jay: Jay,
    who: Who,
    plan_id: PlanId,
    confirm_deletions: Annotated[
        bool, Query(alias="confirmDeletions", description="Delete what is missing, however much it is.")
    ] = False,
) -> CrawlPlanResponse:
    await jay.plans.start(who, plan_id, confirm_deletions=confirm_deletions)
    return plan_response(await jay.plans.get(who, plan_id))


@router.post("/{plan_id}/stop", response_model=CrawlPlanResponse)
async def stop_plan(jay: Jay, who: Who, plan_id: PlanId) -> CrawlPlanResponse:
    """Cancel the run that is under way; a plan that stands still is left as it is."""
    return plan_response(await jay.plans.stop(who, plan_id))


@router.post("/{plan_id}/connectivity", response_model=ConnectivityResponse)
async def check_plan(jay: Jay, who: Who, plan_id: PlanId) -> ConnectivityResponse:
    """Whether the plan's source can be reached, and in a sentence why not."""
    found = await jay.plans.check(who, plan_id)
    return ConnectivityResponse(success=found.works, message=say_member(found.message, found.message.split(" ")[0]))


@router.get("/{plan_id}/enumerate", response_model=list[dict[str, Any]])
async def enumerate_plan(
    jay: Jay,
    who: Who,
    plan_id: PlanId,
    max_results: Annotated[int, Query(alias="maxResults"), Range(1, 1000)] = 100,
    skip: Annotated[int, Query(), Range(0)] = 0,
) -> list[dict[str, Any]]:
    """The beginning of what a run would see, without taking anything in. This asks the source, and takes its time."""
    return await jay.plans.look(who, plan_id, limit=max_results, skip=skip)
