# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Lists of redirects that are large or are changed: files of generated rows, edits of a map that a server uses, and memory
while something goes on. For exp/edits.py, exp/conditions.py and exp/tenmillion.py."""

import os
import random
import socket
import stat
import subprocess
import threading
import time

import htbench
from exp import bulk
from kit import counts

SECRET = "0123456789abcdef0123456789abcdef"


def target_of(n, generation=0):
    """36 bits that look like chance; no random numbers, which took longer than the servers for ten million rows."""
    return f"https://example.org/{generation}/{n * 0x9E3779B97 & 0xFFFFFFFFF:09x}-{n}"


def write_rows(path, count, line="{} {}\n", generation=0, step=611953):
    """Rows 0 to count - 1 in no order, as bulk.rows() has them, of any number of rows in the memory of some thousand."""
    piece = 5000
    with open(path + ".new", "w") as f:
        for begin in range(0, count, piece):
            numbers = (n * step % count for n in range(begin, min(begin + piece, count)))
            f.writelines(line.format(bulk.source_of(n), target_of(n, generation)) for n in numbers)
    os.replace(path + ".new", path)
    return os.path.getsize(path)


def administered(b, name):
    """Configuration for a status page that takes edits."""
    path = os.path.join(b.root, f"{name}.secret")
    with open(path, "w") as f:
        f.write(SECRET + "\n")
    os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
    return (f"HtCacheAdminSecretFile {path}\n<Location /htcache-status>\nSetHandler htcache-status\n"
            "HtCacheAdmin On\nRequire local\n</Location>\n"), path


class Editor:
    """Edits of a map by POST to the status page, over one connection."""

    def __init__(self, port, map_name="rows.txt", temporary=True):
        self.connection = htbench.Connection(port)
        self.url = f"/htcache-status?map={map_name}" + ("&temporary=1" if temporary else "")

    def send(self, edits):
        """[line, ...] of edits, all at once."""
        body = "".join(line + "\n" for line in edits).encode()
        self.connection.socket.sendall(
            f"POST {self.url} HTTP/1.1\r\nHost: localhost\r\nX-HtCache: map-edit\r\nX-HtCache-Secret: {SECRET}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, text = self.connection.answer()
        if status != 200:
            raise RuntimeError(f"an edit was answered with {status}: {text[:300]!r}")

    def row(self, word, source, target):
        self.send([f"{word} {source} {target} 301"])

    def rows(self, word, pairs):
        self.send([f"{word} {source} {target} 301" for source, target in pairs])

    def close(self):
        self.connection.close()


class HaproxyEditor:
    """The same over HAProxy's socket, which stays open and answers each command with a prompt."""

    def __init__(self, path, map_path):
        self.map_path = map_path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(path)
        self.socket.sendall(b"prompt\n")
        self.until_prompt()

    def until_prompt(self):
        said = b""
        while not said.endswith(b"\n> "):
            data = self.socket.recv(65536)
            if not data:
                raise RuntimeError(f"HAProxy closed its socket: {said!r}")
            said += data
        return said.replace(b"+ ", b"").replace(b"> ", b"").strip()  # prompts: of a payload's lines, of the next command

    def send(self, text):
        self.socket.sendall(text.encode())
        said = self.until_prompt()
        if said:
            raise RuntimeError(f"HAProxy says {said!r}")

    def row(self, word, source, target):
        self.send(f"{word} map {self.map_path} {source} {target}\n")

    def rows(self, word, pairs):
        """Rows that follow one command. It takes 16 KB at a time (tune.bufsize)."""
        if word != "add":
            raise ValueError(word)
        pairs, piece = list(pairs), 150
        for begin in range(0, len(pairs), piece):
            self.send(f"add map {self.map_path} <<\n" + "".join(f"{s} {t}\n" for s, t in pairs[begin:begin + piece]) + "\n")

    def close(self):
        self.socket.close()


class Asker:
    """Asks for one path after the other, and says where it is redirected to."""

    def __init__(self, port):
        self.port, self.socket = port, None

    def target(self, path, headers=""):
        """(status, Location or "")"""
        for _ in range(2):
            try:
                return self.ask(path, headers)
            except (ConnectionError, OSError):
                self.close()
        return 0, ""

    def ask(self, path, headers):
        self.socket = self.socket or socket.create_connection(("127.0.0.1", self.port), 60)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        text = b""
        while b"\r\n\r\n" not in text:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("closed")
            text += data
        head, body = text.split(b"\r\n\r\n", 1)
        fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head.decode().split("\r\n")[1:])}
        while len(body) < int(fields.get("content-length", 0)):
            body += self.socket.recv(65536)
        return int(head.split()[1]), fields.get("location", "")

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None


class Memory(threading.Thread):
    """The most that all processes of a server had at a time (PSS), and the most processes, while this runs. `process`:
    a function, as the server may not have been started yet."""

    def __init__(self, process, every=.1):
        super().__init__(daemon=True)
        self.process, self.every, self.most, self.processes, self.done = process, every, 0, 0, threading.Event()

    def run(self):
        while not self.done.is_set():
            process = self.process()
            if process:
                self.most = max(self.most, counts.pss(process.pid))
                self.processes = max(self.processes, len(counts.processes_of(process.pid)))
            self.done.wait(self.every)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


def seconds_until(condition, bound, every=.01):
    """How long until condition() is true; None when it is not within `bound` seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < bound:
        if condition():
            return time.monotonic() - begin
        time.sleep(every)
    return None


def sample(count, number, seed=1):
    return random.Random(seed).sample(range(count), min(number, count))


def tool(b, *arguments, **options):
    return subprocess.run([b.tool, *arguments], check=True, capture_output=True, text=True, timeout=120, **options)
