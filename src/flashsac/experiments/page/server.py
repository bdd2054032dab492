"""The page of runs that go on, served to a browser on this machine.

It only reads, and only when a browser asks, at a low priority. After each reading but the first it rests a hundred
times as long as the processor worked for it. So the runs keep the processor."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import socketserver
import sys
import traceback
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.page.live import LiveData
from flashsac.experiments.page.write import plotly, render

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
CHUNK = 2**18
"""Bytes of a video that are read at a time."""
MOST_LETTERS = 500
"""Letters of an error that the page shows."""


class PageServer(ThreadingHTTPServer):
    """A server of one page. `address` is where browsers find it."""

    daemon_threads = True

    def __init__(self, host: str, port: int, live: LiveData, every: float):
        self.live = live
        self._said: set[str] = set()
        self.page = render("null", None, poll_seconds=every).encode()
        self.library = plotly().encode()
        self.host_names = LOOPBACK | {host.lower()} if _is_loopback(host) else None
        """The names that a request may call this machine; None for any."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise FlashSACError(
                f"{host}:{port} cannot be listened on ({getattr(error, 'strerror', None) or error}). "
                "Name another --port; --port 0 takes a free one."
            ) from error

    def say(self, text: str, error: Exception) -> None:
        """Print why the runs cannot be read, once for each reason."""
        if text not in self._said:
            self._said.add(text)
            traceback.print_exception(error)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}/"

    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that browsers close, as they like to. Any other error is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "flashsac", ""
    timeout = 120
    """Seconds until a connection that says nothing is closed."""

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        if not self._is_for_us():
            self._answer(403, b"this name is not one of this machine's; open the address that flashsac watch prints\n")
        elif path == "/":
            self._answer(200, self.server.page, "text/html; charset=utf-8")
        elif path == "/plotly.js":
            self._answer(200, self.server.library, "text/javascript; charset=utf-8", {"Cache-Control": "max-age=86400"})
        elif path == "/data.json":
            self._answer_data()
        elif video := self.server.live.videos.get(path.lstrip("/")):
            self._answer_video(video)
        else:
            self._answer(404, b"there is no such page\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _is_for_us(self) -> bool:
        """False for a request by another name: a web page elsewhere may have pointed its own name at this machine."""
        with contextlib.suppress(ValueError):
            name = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            return self.server.host_names is None or name in self.server.host_names
        return False

    def _answer_data(self) -> None:
        try:
            content = self.server.live.current()
        except Exception as error:
            text = f"the runs cannot be read: {type(error).__name__}: {error}"[:MOST_LETTERS]
            self.server.say(text, error)
            return self._answer(500, text.encode(), "text/plain; charset=utf-8")
        tag = f'"{content.tag}"'
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, b"", more={"ETag": tag})
        else:
            self._answer(200, content.body, "application/json", {"ETag": tag})

    def _answer_video(self, video: Path) -> None:
        """Send a video, or the part of it that a browser wants to jump to."""
        try:
            file = video.open("rb")
        except OSError:
            return self._answer(404, b"the video is gone\n")
        with file:
            size = os.fstat(file.fileno()).st_size
            asked = self.headers.get("Range")
            first, last = _range(asked, size) if asked else (0, size - 1)
            if first > last:
                return self._answer(416, b"", more={"Content-Range": f"bytes */{size}"})
            more = {"Accept-Ranges": "bytes", "Content-Length": str(last - first + 1)}
            more |= {"Content-Range": f"bytes {first}-{last}/{size}"} if asked else {}
            self._begin(206 if asked else 200, "video/mp4", more)
            file.seek(first)
            left = last - first + 1 if self.command == "GET" else 0
            while left > 0 and (piece := file.read(min(CHUNK, left))):
                self.wfile.write(piece)
                left -= len(piece)

    def _answer(self, code: int, body: bytes, kind: str = "text/plain", more: dict[str, str] | None = None) -> None:
        length = {} if code == 304 else {"Content-Length": str(len(body))}
        self._begin(code, kind, length | (more or {}))
        if self.command == "GET":
            self.wfile.write(body)

    def _begin(self, code: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in ({"Content-Type": kind} | HEADERS | more).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def _is_loopback(host: str) -> bool:
    return host.lower() in LOOPBACK or host.startswith("127.")


def _range(asked: str, size: int) -> tuple[int, int]:
    """Return the first and the last byte that a Range header asks for; an empty range if it cannot be met."""
    match = re.fullmatch(r"bytes=(\d{0,15})-(\d{0,15})", asked.strip())
    if match is None or not (match[1] or match[2]):
        return 1, 0
    if not match[1]:
        return max(0, size - int(match[2])), size - 1
    return int(match[1]), min(int(match[2]) if match[2] else size - 1, size - 1)
