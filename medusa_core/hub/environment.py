"""What the environment says of proxies and certificates, in words where it cannot be followed.

Passwords are never shown. Knows nothing of the Hub or of what is asked of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from medusa_core.errors import HubUnreachable

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_SPOKEN = ("http", "https")  # by the connections; a library for SOCKS does not come with the program
_PASSWORD = re.compile(r"//[^/@]*@")


@contextmanager
def named_environment() -> Iterator[None]:
    """What connections make of the environment when they are set up; what they cannot follow is named."""
    import httpx2

    try:
        yield
    except OSError as error:  # the certificates are read at once
        said = (error.strerror or str(error)).strip()
        raise HubUnreachable(
            f"The certificates that the environment names cannot be read ({said}): {_certificates()}. Name a "
            "file of certificates that is there (PEM), or unset the variable."
        ) from error
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise HubUnreachable(
            f"The proxy that the environment names cannot be used: {_listed(_wrong_proxies())}. Name one that speaks "
            "HTTP, as http://host:port, or unset the variable; of SOCKS proxies many listen for HTTP at another port."
        ) from error


def certificates_now() -> str:
    """Which certificates the environment names, to stand at the end of a sentence; "" where it names none."""
    said = _certificates()
    return f" (now {said})" if said else ""


def _certificates() -> str:
    """The one of the variables that counts: a file goes before a folder."""
    return _listed([name for name in _CERTIFICATES if _value(name)][:1])


def _wrong_proxies() -> Sequence[str]:
    """The variables whose proxies speak nothing that is spoken here; all of them where each seems right."""
    wrong = [name for name in _PROXIES if "://" in (value := _value(name)) and value.partition("://")[0] not in _SPOKEN]
    return wrong or _PROXIES


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{_spelled(name)} is {_PASSWORD.sub('//…@', _value(name))}" for name in names if _value(name))


def _spelled(name: str) -> str:
    """As the environment has it: proxies are named in small letters too, and these come first."""
    return name.lower() if os.environ.get(name.lower()) else name


def _value(name: str) -> str:
    return os.environ.get(name.lower()) or os.environ.get(name, "")
