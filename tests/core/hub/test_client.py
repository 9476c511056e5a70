"""What failed connections and strange answers mean, in words that name the way on."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from medusa_core.config import HubConfig
from medusa_core.errors import ConfigError, HubError, HubUnreachable
from medusa_core.hub import client as room
from medusa_core.hub.client import HubClient


def ask(client: HubClient) -> None:
    list(client.model_info("Maker/Tiny", "main"))


def failing(error: Exception) -> HubClient:
    """A client whose every request fails so."""

    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error

    client = HubClient(HubConfig(), sleep=lambda _: None)
    client._http = httpx2.Client(transport=httpx2.MockTransport(fail))
    return client


def answering(response: httpx2.Response) -> HubClient:
    client = HubClient(HubConfig(), sleep=lambda _: None)
    client._http = httpx2.Client(transport=httpx2.MockTransport(lambda request: response))
    return client


def tls_error(kind: type[ssl.SSLError], text: str) -> httpx2.ConnectError:
    error = httpx2.ConnectError(text)
    error.__cause__ = kind(1, text)
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx2.ProxyError("407 Proxy Authentication Required"), r"proxy refused.*407.*HTTPS_PROXY"),
        (tls_error(ssl.SSLCertVerificationError, "self-signed"), r"certificate is not trusted.*SSL_CERT_FILE"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] unable"), r"certificate is not trusted"),
        (tls_error(ssl.SSLError, "[SSL: WRONG_VERSION_NUMBER]"), r"no secure connection.*http or https\?"),
        (httpx2.ConnectError("Name or service not known"), r"no connection to the Hub \(Name or.*network.*5 tries"),
        (httpx2.ConnectTimeout("timed out"), r"does not answer \(5 tries\)"),
        (httpx2.ReadError("reset by peer"), r"connection broke \(reset by peer\) \(5 tries\)"),
        (httpx2.TooManyRedirects("Exceeded"), r"round in circles"),
        (httpx2.UnsupportedProtocol("no scheme"), r"address cannot be used.*HF_ENDPOINT"),
    ],
)
def test_failed_connections_are_named(error: Exception, words: str) -> None:
    with pytest.raises(HubUnreachable, match=words):
        ask(failing(error))


def test_a_plain_server_asked_for_tls_is_named(fake_hub: Any) -> None:
    client = HubClient(HubConfig(endpoint=fake_hub.url.replace("http:", "https:")), sleep=lambda _: None)
    with pytest.raises(HubUnreachable, match="no secure connection"):
        ask(client)
    client.close()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ALL_PROXY", "socks5://proxy.example:1080", r"ALL_PROXY is socks5://proxy\.example:1080\. Name one.*HTTP"),
        ("https_proxy", "socks5h://me:secret@p.example", r"https_proxy is socks5h://…@p\.example\. Name one.*HTTP"),
        ("HTTPS_PROXY", "quic://p.example", r"HTTPS_PROXY is quic://p\.example\. Name one"),
        ("HTTPS_PROXY", "http://p.example:port", r"HTTPS_PROXY is http://p\.example:port\. Name one"),
        ("SSL_CERT_FILE", "/missing.pem", r"No such file or directory.*SSL_CERT_FILE is /missing\.pem\. Name a file"),
        ("SSL_CERT_FILE", __file__, r"SSL_CERT_FILE is .*test_client\.py\. Name a file of certificates"),
    ],
)
def test_an_environment_that_cannot_be_followed_is_named(
    fake_hub: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    client = HubClient(HubConfig(endpoint=fake_hub.url), sleep=lambda _: None)
    with pytest.raises(HubUnreachable, match=words) as caught:
        ask(client)
    assert "secret" not in str(caught.value)
    client.close()


def test_certificates_that_are_named_are_shown_where_they_are_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", "/missing")
    with pytest.raises(HubUnreachable, match=r"in SSL_CERT_FILE \(now SSL_CERT_DIR is /missing\)"):
        ask(failing(tls_error(ssl.SSLCertVerificationError, "self-signed")))


def test_a_proxy_that_asks_who_you_are() -> None:
    with pytest.raises(HubUnreachable, match=r"proxy asks who you are \(407\)"):
        ask(answering(httpx2.Response(407)))


@pytest.mark.parametrize("body", ["<html>log in first</html>", "[]", "{}"])
def test_what_is_no_hub_is_told(body: str) -> None:
    with pytest.raises(HubError, match=r"not the Hub.*log in first"):
        ask(answering(httpx2.Response(200, text=body)))


def test_how_long_to_wait_comes_as_seconds_or_as_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90))
    assert room._retry_after("12") == 12
    assert 80 < (room._retry_after(later) or 0) <= 90
    assert room._retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert room._retry_after("soon") is room._retry_after("") is room._retry_after(None) is None


def test_a_mirror_is_asked_in_place_of_the_hub(fake_hub: Any, tiny_repo: Any) -> None:
    client = HubClient(HubConfig(endpoint=fake_hub.url + "/"))
    ask(client)
    assert client.file_url("Maker/Tiny", "c0ffee", "a.json") == f"{fake_hub.url}/Maker/Tiny/resolve/c0ffee/a.json"
    client.close()


def test_an_address_without_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="HF_ENDPOINT"):
        HubConfig(endpoint="hf-mirror.example")
