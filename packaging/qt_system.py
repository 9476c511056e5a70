"""What Qt needs from a Linux system: shared libraries, fonts, a display; what is missing, and the command that helps.

Standard library only, and old Pythons too. Knows nothing of virtual environments or of the app.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterable, Mapping

# Shared library -> the Debian and Ubuntu package that holds it. Listed from what the Qt libraries of the wheel link to.
BASE_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libbrotlidec.so.1": "libbrotli1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libstdc++.so.6": "libstdc++6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
}
WINDOW_LIBRARIES = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libxcb.so.1": "libxcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-glx.so.0": "libxcb-glx0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
FONT_PACKAGE = "fonts-dejavu-core"  # a text font and a fixed-width one

_FONT_SUFFIXES = {".ttf", ".otf", ".ttc", ".pfb"}
_FIXED_WIDTH = re.compile(r"mono|courier|consol|fixed|typewriter|inconsolata|menlo|cousine", re.IGNORECASE)
_WINDOW_PLATFORMS = ("", "xcb", "wayland")


def opens_windows(environ: Mapping[str, str]) -> bool:
    """Whether Qt will look for a display: not so for QT_QPA_PLATFORM=offscreen and its like."""
    platform = environ.get("QT_QPA_PLATFORM", "")
    return platform.split(":")[0].split(";")[0].split("-")[0] in _WINDOW_PLATFORMS


def display_problem(environ: Mapping[str, str], answers: Callable[[str], bool] | None = None) -> str | None:
    """One sentence where no window could be opened here, else None. `answers` tells whether an X display is alive."""
    if not sys.platform.startswith("linux") or not opens_windows(environ):
        return None
    wayland, display = environ.get("WAYLAND_DISPLAY", ""), environ.get("DISPLAY", "")
    way_on = "Start it from a graphical session, over `ssh -X`, or on a virtual screen with `xvfb-run`."
    if not wayland and not display:
        return f"There is no display to open a window on: DISPLAY and WAYLAND_DISPLAY are not set. {way_on}"
    if wayland and Path(environ.get("XDG_RUNTIME_DIR", ""), wayland).exists():
        return None
    if display and (answers or _x_answers)(display):
        return None
    dead = f"DISPLAY is {display!r}" if display else f"WAYLAND_DISPLAY is {wayland!r}"
    return f"There is no display to open a window on: {dead}, but nothing answers there. {way_on}"


def _x_answers(display: str) -> bool:
    match = re.fullmatch(r"(.*):(\d+)(\.\d+)?", display)
    if not match:
        return True  # an unusual name: let Qt try it
    host, number = match.group(1), int(match.group(2))
    if host in ("", "unix"):
        path = f"/tmp/.X11-unix/X{number}"
        return any(_connects(socket.AF_UNIX, address) for address in (path, f"\0{path}"))
    return _connects(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, (host.strip("[]"), 6000 + number))


def _connects(family: int, address: str | tuple[str, int]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def missing_packages(windows: bool) -> list[str]:
    """The Debian names of what Qt needs and this Linux lacks; empty elsewhere. `windows`: on a real display too."""
    if not sys.platform.startswith("linux"):
        return []
    libraries = {**BASE_LIBRARIES, **WINDOW_LIBRARIES} if windows else BASE_LIBRARIES
    missing = {package for name, package in libraries.items() if not _loads(name)}
    if not has_fonts(_installed_fonts()):
        missing.add(FONT_PACKAGE)
    return sorted(missing)


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def has_fonts(fonts: Iterable[str]) -> bool:
    """Whether there is a text font and a fixed-width one; a font is the line that fc-list or its file name gives."""
    fixed = other = False
    for font in fonts:
        if ":spacing=100" in font or _FIXED_WIDTH.search(font):
            fixed = True
        else:
            other = True
    return fixed and other


def _installed_fonts() -> list[str]:
    if shutil.which("fc-list"):
        listed = subprocess.run(
            ["fc-list", ":", "file", "family", "spacing"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if listed.returncode == 0:
            return listed.stdout.decode(errors="replace").splitlines()
    home = Path.home()
    roots = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), home / ".fonts", home / ".local/share/fonts"]
    return [
        name
        for root in roots
        for _, _, names in os.walk(str(root))
        for name in names
        if Path(name).suffix.lower() in _FONT_SUFFIXES
    ]


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def install_command(packages: Iterable[str], root: bool) -> list[str]:
    """The one apt command that installs `packages`."""
    return [*([] if root else ["sudo"]), "apt-get", "install", "-y", "--no-install-recommends", *packages]


def advice(packages: Iterable[str], what: str) -> str:
    """What to do by hand about missing `packages`; `what` says what needs them."""
    names = list(packages)
    if shutil.which("apt-get"):
        return f"{what} needs system packages that are missing. This command installs them:\n  " + " ".join(
            install_command(names, is_root())
        )
    return (
        f"{what} needs system libraries or fonts that are missing. Install your distribution's packages for these "
        f"(Debian's names): {' '.join(names)}"
    )


def install(packages: list[str]) -> bool:
    """Install `packages` with apt where that is possible without asking anybody; whether it was done."""
    if not is_root() or not shutil.which("apt-get"):
        return False
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("Installing system packages:", " ".join(packages), flush=True)
    for command in (["apt-get", "update", "-qq"], [*install_command(packages, root=True), "-qq"]):
        if subprocess.run(command, env=environ, check=False).returncode != 0 and "install" in command:
            return False  # a failed update alone may still leave usable lists
    return True
