"""One attempt: signed, sent through the one way out, and what came back in a few words."""

import re
import time
from datetime import datetime

from scrubjay.crawler.fetcher import Fetcher, FetchRequest
from scrubjay.errors import FetchFailed, SecretUnreadable, UrlBlocked, UrlInvalid
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.webhook import Answer, Delivery, Webhook
from scrubjay.telemetry.metrics import webhook_attempt_seconds
from scrubjay.webhooks.endpoint import Sealing
from scrubjay.webhooks.signing import sign

KEPT_BYTES = 1024  # of an answer
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class Sender:
    def __init__(self, sealing: Sealing, timeout_seconds: float) -> None:
        self._sealing = sealing
        self.timeout_seconds = timeout_seconds

    async def send(self, fetcher: Fetcher, webhook: Webhook, delivery: Delivery, now: datetime) -> Answer:
        started = time.perf_counter()
        try:
            request = self._request(webhook, delivery, now)
            response = await fetcher.fetch(request)
        except (FetchFailed, UrlBlocked, UrlInvalid, SecretUnreadable) as error:
            return Answer(error=error.message)
        finally:
            webhook_attempt_seconds.observe(time.perf_counter() - started)
        body = _UNSTORABLE.sub("\ufffd", response.body[:KEPT_BYTES].decode("utf-8", "replace"))
        refusal = "Redirects are not followed." if response.is_redirect else None
        return Answer(status=response.status, body=body, error=refusal)

    def _request(self, webhook: Webhook, delivery: Delivery, now: datetime) -> FetchRequest:
        body, timestamp = delivery.body.encode(), int(now.timestamp())
        headers = {
            **self._sealing.headers(webhook),
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "X-Webhook-Event": delivery.event,
            "X-Webhook-Id": str(uuid_from_id(delivery.event_id)),
            "X-Webhook-Timestamp": str(timestamp),
        }
        keys = self._sealing.secrets(webhook, now)
        if keys:
            headers["X-Webhook-Signature"] = sign(keys, timestamp, body)
        return FetchRequest(
            url=webhook.url,
            method="POST",
            headers=headers,
            body=body,
            timeout_seconds=self.timeout_seconds,
            max_bytes=KEPT_BYTES,
            truncate=True,
            follow_redirects=False,  # a redirect could lead inside, or carry the body elsewhere
        )
