"""A Hub on this machine: it serves what a test puts there, with faults on demand."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class Repo:
    """A repository of the fake Hub."""

    files: dict[str, bytes]
    commit: str = "c" * 40
    revisions: tuple[str, ...] = ("main", "refs/pr/1")
    gated: bool = False
    private: bool = False
    card: dict[str, Any] = field(default_factory=lambda: {"license": "apache-2.0"})
    config: dict[str, Any] = field(default_factory=dict)

    def is_lfs(self, name: str) -> bool:
        return name.endswith((".safetensors", ".bin", ".gguf", ".pt")) or name == "tokenizer.json"


class FakeHub:
    """Speaks the Hub's API as the client uses it, from a thread, with faults on demand; files of LFS come from a CDN.

    `faults[name]`: what to do at the next requests for that file (or "api"), each taken once: ("cut", bytes),
    ("cut ignoring range", bytes), ("status", code, headers), ("corrupt",), ("ignoring range",), ("wrong range",),
    ("hang", bytes), ("longer",).
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: dict[str, list[tuple[Any, ...]]] = {}
        self.served: dict[str, int] = {}  # bytes of files that were sent
        self.requests: list[tuple[str, str, dict[str, str]]] = []  # host, path, headers
        self.tokens: set[str] = set()
        self.hung, self.release = threading.Event(), threading.Event()
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), self._handler(kind)) for kind in ("hub", "cdn")]
        for server in self.servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers)

    def close(self) -> None:
        self.release.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def fault(self, name: str) -> tuple[Any, ...]:
        waiting = self.faults.get(name)
        return waiting.pop(0) if waiting else ("none",)

    def _handler(self, kind: str) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                path = unquote(self.path.partition("?")[0]).lstrip("/")
                hub.requests.append((kind, path, {name.lower(): value for name, value in self.headers.items()}))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    if kind == "cdn":
                        repo, _, name = path.partition("//")
                        hub._send_file(self, hub.repos[repo].files[name], name)
                    elif path.startswith("api/models/"):
                        hub._send_info(self, path.removeprefix("api/models/"))
                    else:
                        hub._resolve(self, path)

        return Handler

    def _refuse(self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", "2")
        request.end_headers()
        request.wfile.write(b"{}")

    def _allowed(self, request: BaseHTTPRequestHandler, repo: Repo, *, api: bool) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            self._refuse(request, 401, {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif repo.private and token not in self.tokens:
            self._refuse(request, 401, {"X-Error-Message": "Invalid username or password."})
        elif repo.gated and not api:
            self._refuse(request, 403 if token else 401, {"X-Error-Code": "GatedRepo"})
        else:
            return True
        return False

    def _send_info(self, request: BaseHTTPRequestHandler, path: str) -> None:
        name, _, revision = path.partition("/revision/")
        fault = self.fault("api")
        if fault[0] == "status":
            self._refuse(request, fault[1], fault[2])
            return
        repo = self.repos.get(name)
        if repo is None:
            self._refuse(request, 401, {"X-Error-Code": "RepoNotFound"})
        elif revision not in (*repo.revisions, repo.commit):
            self._refuse(request, 404, {"X-Error-Code": "RevisionNotFound"})
        elif self._allowed(request, repo, api=True):
            body = json.dumps(self.info(name)).encode()
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)

    def info(self, name: str) -> dict[str, Any]:
        repo = self.repos[name]
        siblings = []
        for file, data in repo.files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry: dict[str, Any] = {"rfilename": file, "size": len(data), "blobId": blob}
            if repo.is_lfs(file):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return {
            "id": name,
            "sha": repo.commit,
            "cardData": repo.card,
            "config": repo.config,
            "siblings": siblings,
            "safetensors": {"parameters": {"F32": 1000}, "total": 1000},
        }

    def _resolve(self, request: BaseHTTPRequestHandler, path: str) -> None:
        repo_name, _, rest = path.partition("/resolve/")
        commit, _, name = rest.partition("/")
        repo = self.repos[repo_name]
        if not self._allowed(request, repo, api=False):
            return
        if commit != repo.commit or name not in repo.files:
            self._refuse(request, 404, {"X-Error-Code": "EntryNotFound"})
            return
        if not repo.is_lfs(name):
            self._send_file(request, repo.files[name], name)
            return
        data = repo.files[name]
        request.send_response(302)
        request.send_header("X-Repo-Commit", repo.commit)
        request.send_header("X-Linked-Size", str(len(data)))
        request.send_header("X-Linked-Etag", f'"{hashlib.sha256(data).hexdigest()}"')
        request.send_header("Location", f"{self.cdn}/{repo_name}//{name}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _send_file(self, request: BaseHTTPRequestHandler, data: bytes, name: str) -> None:
        fault = self.fault(name)
        if fault[0] == "status":
            self._refuse(request, fault[1], fault[2])
            return
        if fault[0] == "corrupt":
            data = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        wanted = request.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        start = int(wanted) if wanted and "ignoring range" not in fault[0] else 0
        if start and start >= len(data):
            self._refuse(request, 416, {"Content-Range": f"bytes */{len(data)}"})
            return
        body = data[start:] + (b"more" if fault[0] == "longer" else b"")
        request.send_response(206 if start else 200)
        if start:
            first = start + (1 if fault[0] == "wrong range" else 0)
            request.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        request.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        broken = fault[0].startswith(("cut", "hang"))
        end = fault[1] if broken else len(body)
        served = self.served  # of this request's time: a client that has gone is noticed some pieces later
        for at in range(0, end, 16384):
            piece = body[at : min(at + 16384, end)]
            request.wfile.write(piece)
            served[name] = served.get(name, 0) + len(piece)
        if fault[0] == "hang":
            self.hung.set()
            self.release.wait(60)
        if broken:
            request.close_connection = True
