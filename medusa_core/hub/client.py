"""Requests to the Hub: headers, what each refusal means in words, and how patiently it is asked again.

Uses huggingface-hub for what the Hub's answers mean and for the token it keeps; the connections are our own, since the
library's requests also ask for a list of other programs that nobody here wants. Knows nothing of files on disk.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from medusa_core.config import HubConfig
from medusa_core.errors import AccessRefused, HubError, HubUnreachable, NotOnHub
from medusa_core.events import Progress
from medusa_core.hub.environment import certificates_now, named_environment

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub.hf_api import ModelInfo

_PAGE = "https://huggingface.co"  # terms are agreed to there, whatever mirror is used
_AGAIN = (408, 429, 500, 502, 503, 504)
_SLICE_SECONDS = 0.25  # waiting is cut into these, so that it can be stopped
_LONGEST_BACKOFF = 30.0


@dataclass(frozen=True, slots=True)
class DownloadProgress(Progress):
    """Bytes of a download are there. `done` and `total` count the whole model."""

    rate: float = 0.0  # bytes a second over the last seconds; 0: not known

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None where it is not known."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None


class TryAgainError(Exception):
    """A request failed in a way that may pass."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        """`after`: seconds that the Hub asked to wait."""
        super().__init__(reason)
        self.after = after


class HubClient:
    """One connection to the Hub."""

    def __init__(
        self,
        config: HubConfig,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.sleep, self.clock = config, sleep, clock
        self._http: httpx2.Client | None = None

    def close(self) -> None:
        """Give the connections back."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def patience(self) -> Patience:
        """A count of failures that starts at none."""
        return Patience(self.config, self.sleep)

    def model_info(self, repo: str, revision: str) -> Generator[Progress, None, ModelInfo]:
        """What the Hub says of a model: its commit, its files with sizes and hashes, its card's data."""
        from urllib.parse import quote

        from huggingface_hub.hf_api import ModelInfo

        url = f"{self._endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}?blobs=true"
        patience = self.patience()
        while True:
            yield DownloadProgress(f"Asking the Hub about {repo}", 0, 0, "bytes")
            try:
                with self.open(url, repo, revision) as response:
                    return ModelInfo(**_json(response, repo))
            except TryAgainError as problem:
                yield from patience.wait(problem, 0, 0)

    def file_url(self, repo: str, commit: str, name: str) -> str:
        """Where a file of a commit is."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(repo, name, revision=commit, endpoint=self._endpoint)

    @contextmanager
    def open(self, url: str, repo: str, what: str, start: int = 0) -> Iterator[httpx2.Response]:
        """Ask for `url` from byte `start` on, follow redirects; the body is not read yet.

        `what` of `repo` is asked for, for messages. Raises TryAgainError where trying again may help, else HubError.
        """
        import httpx2

        if self.config.offline:
            raise HubUnreachable(f"Offline mode is on (HF_HUB_OFFLINE), so {repo} cannot be asked for. Turn it off.")
        headers = {"Range": f"bytes={start}-"} if start else {}
        with _named_failures(repo), self._client().stream("GET", url, headers=headers) as response:
            if response.status_code not in (httpx2.codes.OK, httpx2.codes.PARTIAL_CONTENT, 416):
                response.read()
                raise refusal(response, repo, what, bool(self.config.token))
            yield response

    @property
    def _endpoint(self) -> str:
        return self.config.endpoint.rstrip("/")

    def _client(self) -> httpx2.Client:
        if self._http is None:
            import httpx2

            headers = {"User-Agent": "medusa-chat", "Accept-Encoding": "identity"}
            if self.config.token:
                headers["Authorization"] = f"Bearer {self.config.token}"  # stays behind where a redirect leaves the Hub
            with named_environment():
                self._http = httpx2.Client(
                    headers=headers, follow_redirects=True, timeout=httpx2.Timeout(self.config.silence_seconds)
                )
        return self._http


class Patience:
    """Counts failures in a row, waits after each, and gives up in time."""

    def __init__(self, config: HubConfig, sleep: Callable[[float], None]) -> None:
        self._config, self._sleep, self._failures = config, sleep, 0

    def progressed(self) -> None:
        """Something arrived: failures before it no longer count."""
        self._failures = 0

    def wait(self, problem: TryAgainError, done: float, total: float) -> Generator[Progress, None, None]:
        """Wait before the next try; raises HubUnreachable when it is time to give up."""
        self._failures += 1
        if self._failures >= self._config.attempts:
            tries = f"{self._failures} tries" if self._failures > 1 else "1 try"
            raise HubUnreachable(f"{problem} ({tries}). What has arrived is kept; try again later.") from problem
        seconds = min(2.0 ** (self._failures - 1), _LONGEST_BACKOFF) if problem.after is None else problem.after
        if seconds > self._config.longest_wait:
            raise HubUnreachable(
                f"{problem}, and asks to wait {seconds / 60:.0f} minutes. What has arrived is kept; try again then."
            ) from problem
        left = seconds
        while left > 0:
            yield DownloadProgress(f"{problem}; trying again in {left:.0f} s", done, total, "bytes")
            self._sleep(min(_SLICE_SECONDS, left))
            left -= _SLICE_SECONDS


def saved_token() -> str:
    """The token that the Hub's own tools keep on this machine (or that the environment gives them); "" for none."""
    from huggingface_hub import constants, get_token

    return "" if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token() or ""


def refusal(response: httpx2.Response, repo: str, what: str, with_token: bool) -> HubError | TryAgainError:
    """What an answer other than the file means, in words that name the way on."""
    status, said = response.status_code, response.headers.get("X-Error-Message", "")
    code = response.headers.get("X-Error-Code", "")
    if status in _AGAIN:
        busy = "The Hub is busy (429)" if status == 429 else f"The Hub has trouble of its own ({status})"
        return TryAgainError(busy, _retry_after(response.headers.get("Retry-After")))
    if status in (401, 403) or code == "GatedRepo":
        return _no_access(status, code, said, repo, with_token)
    if status == 404:
        return _not_there(code, repo, what)
    if status == 407:
        return HubUnreachable("The proxy asks who you are (407). Give user and password in HTTPS_PROXY.")
    return HubError(f"The Hub answered {status} when asked for {what} of {repo}{': ' + said if said else ''}.")


def _not_there(code: str, repo: str, what: str) -> NotOnHub:
    missing = {"RevisionNotFound": f"revision {what!r}", "EntryNotFound": f"file {what!r}"}.get(code)
    if missing:
        return NotOnHub(f"{repo} has no {missing} on the Hub. See {_PAGE}/{repo}/tree/main for what is there.")
    return NotOnHub(f"There is no model {repo} on the Hub. Check the spelling at {_PAGE}/{repo}.")


def _no_access(status: int, code: str, said: str, repo: str, with_token: bool) -> AccessRefused:
    page, tokens = f"{_PAGE}/{repo}", f"{_PAGE}/settings/tokens"
    if code == "GatedRepo":
        then = "wait until they let the owner of your token in" if with_token else f"make a token at {tokens}"
        return AccessRefused(
            f"{repo} is gated: its makers want you to agree to their terms first. Visit {page}, agree, and {then}; "
            f"give the token in the environment variable HF_TOKEN or with `hf auth login`, and try again."
        )
    if status == 401 and with_token:
        return AccessRefused(f"The Hub does not accept the token in use for {repo}. Make a new one at {tokens}.")
    return AccessRefused(
        f"The Hub does not give out {repo} ({status}{': ' + said if said else ''}): there is no such model, or it is "
        f"private. Check the name at {page}; for a private one give a token in HF_TOKEN or with `hf auth login`."
    )


@contextmanager
def _named_failures(repo: str) -> Iterator[None]:
    """Failed connections in words: what may pass is to be tried again, the rest says what to look at."""
    import httpx2

    try:
        yield
    except httpx2.ProxyError as error:
        raise HubUnreachable(
            f"The proxy refused the connection to the Hub ({_first(error)}). Check HTTPS_PROXY, its user and password."
        ) from error
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        raise HubUnreachable(f"The Hub's address cannot be used ({_first(error)}). Check HF_ENDPOINT.") from error
    except httpx2.TooManyRedirects as error:
        raise HubUnreachable(f"The Hub sent {repo} round in circles. Check HF_ENDPOINT and the proxy.") from error
    except httpx2.TimeoutException as error:
        raise TryAgainError("The Hub does not answer") from error
    except httpx2.ConnectError as error:
        if _is_certificate(error):
            raise HubUnreachable(
                f"The Hub's certificate is not trusted ({_first(error)}). Behind a firewall that inspects connections, "
                f"add its certificate to the system's, or name the file in SSL_CERT_FILE{certificates_now()}."
            ) from error
        if _is_tls(error):
            raise HubUnreachable(
                f"There is no secure connection to the Hub ({_first(error)}). Check HF_ENDPOINT (http or https?) and "
                "HTTPS_PROXY."
            ) from error
        raise TryAgainError(
            f"There is no connection to the Hub ({_first(error)}): check the network, and HTTPS_PROXY if it is set"
        ) from error
    except httpx2.TransportError as error:
        raise TryAgainError(f"The connection broke ({_first(error)})") from error


def _is_certificate(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)) or "CERTIFICATE" in str(error)


def _is_tls(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLError) for each in _chain(error)) or "[SSL" in str(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _first(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _json(response: httpx2.Response, repo: str) -> dict[str, Any]:
    response.read()
    try:
        found: Any = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "id" not in found:
        raise HubError(
            f"What answered for {repo} is not the Hub: it sent no description of a model. Check HF_ENDPOINT, and "
            "whether this network asks you to log in first."
        )
    return found


def _retry_after(value: str | None) -> float | None:
    """Seconds, given as such or as a date."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
