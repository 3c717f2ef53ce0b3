"""Sends a notice as JSON to an URL, by POST.

Decision: urllib; no redirect is followed, since a token would go where the user did not
send it. A token goes over HTTPS or to this machine itself. Source: RFC 9110.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO

from benchwright import __version__
from benchwright.core.notice import Notice, WebhookTarget
from benchwright.notice import text
from benchwright.notice.failure import Undelivered
from benchwright.notice.secret import revealed
from benchwright.notice.url import LOOPBACK, url_fault

_AGAIN = (408, 425, 429)


def send(
    webhook: WebhookTarget,
    notice: Notice,
    environment: Mapping[str, str],
    timeout_s: float,
) -> None:
    """POST a notice. Raises Undelivered."""
    url = webhook.url
    if webhook.url_from is not None:
        url = revealed(webhook.url_from, environment)
    token = revealed(webhook.token, environment) if webhook.token else ""
    fault = url_fault(url, with_token=bool(token))
    if fault:
        raise Undelivered(fault)
    _post(_request(url, notice, token), webhook, timeout_s)


def _request(url: str, notice: Notice, token: str) -> urllib.request.Request:
    data = text.document(notice)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"benchwright/{__version__}",
        # A try that arrived, but whose answer did not, can be told from a second notice.
        "Idempotency-Key": hashlib.sha256(data).hexdigest(),
    }
    request = urllib.request.Request(url, data, headers, method="POST")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return request


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow none: the redirect itself is then the answer."""


def _post(
    request: urllib.request.Request, webhook: WebhookTarget, timeout_s: float
) -> None:
    own = urllib.parse.urlsplit(request.full_url).hostname in LOOPBACK
    opener = urllib.request.build_opener(
        # This machine is reached without a proxy, which would read a token.
        urllib.request.ProxyHandler({} if own else None),
        urllib.request.HTTPSHandler(
            context=ssl.create_default_context(cafile=webhook.ca_file or None)
        ),
        _NoRedirect,
    )
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(error) from None
    except urllib.error.URLError as error:
        raise _unreached(error.reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise _unreached(error) from None


def _refused(error: urllib.error.HTTPError) -> Undelivered:
    if 300 <= error.code < 400:
        return Undelivered(f"{error.code}: it redirects; give the URL it redirects to")
    message = text.one_line(f"the server answered {error.code} {error.reason}", 200)
    return Undelivered(message, again=error.code >= 500 or error.code in _AGAIN)


def _unreached(reason: object) -> Undelivered:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Undelivered(f"its certificate is not trusted: {reason.verify_message}")
    words = reason.strerror if isinstance(reason, OSError) else ""
    return Undelivered(text.one_line(words or str(reason), 200), again=True)
