"""What is written into the event log of a job. `live.py` is for following it."""

EVENT_TYPES = {
    "job.submitted": "It was put in the queue.",
    "job.started": "A worker began a run of it.",
    "job.progress": "How far it is: `current`, `total`, `message`, and what the handler adds.",
    "job.log": "A line that the handler logged: `level`, `message`.",
    "job.pause_requested": "Somebody asked for it to pause.",
    "job.resume_requested": "Somebody let it go on.",
    "job.cancel_requested": "Somebody asked for it to end.",
    "job.retry_requested": "Somebody queued it again after it had failed or was cancelled.",
    "job.paused": "It stopped at a checkpoint and waits to be resumed.",
    "job.handed_back": "Its worker shut down; another run goes on from the last checkpoint.",
    "job.recovered": "Its worker died; it is in the queue again.",
    "job.retrying": "A run failed with `error`; another follows after a pause.",
    "job.completed": "The handler returned; the job has its result.",
    "job.failed": "It failed with `error`, and no try is left.",
    "job.cancelled": "It ended because somebody asked for it.",
    "article.processed": "A crawl is done with a page: `url`, `domain`, `status` (`inserted`, `updated`, `unchanged`, "
    "`deduped`, `removed`, `failed`, or `extracted` when nothing is kept), and more where it is known.",
    "domain.metrics": "What a crawl has done so far at a host, at most every other second: `domain`, `pages`, "
    "`failed`, `bytes`.",
    "diagnostic.step": "A diagnostic job took a step.",
}
