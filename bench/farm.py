#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The farm tier, measured with a memcached of its own.

    bench/farm.py sizes [TREE [MODULE.so]]    what memcached holds for the .htaccess files of TREE, and what
                                              goes over the network; bench/farm.py makes a tree without one
    bench/farm.py longest [MODULE.so [PAIRS [SECONDS]]]
                                              the longest request while memcached is paused, killed, restarted
                                              and flooded, in pairs with runs in which nothing happens to it

`sizes` counts, so it needs no quiet machine. `longest` prints for each pair the longest request of both runs
and what the module itself counted as the most that a request spent on memcached; requests take longer than
usual also where the machine is busy, which is what the other half of each pair shows.
"""

import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import htbench
from kit import cleanup

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_MS = 20
CLIENTS = 4
DIRECTORIES = 400


class Memcached:
    def __init__(self, *options):
        self.port = htbench.free_port()
        self.options = options
        self.process = None

    def start(self):
        program = shutil.which("memcached") or "/usr/bin/memcached"
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        self.process = cleanup.start([program, "-U", "0", "-l", "127.0.0.1", "-p", str(self.port)] + user +
                                     list(self.options), stderr=subprocess.DEVNULL)
        cleanup.add(self)
        end = time.monotonic() + 30
        while True:
            try:
                return self if self.ask("version\r\n", "\r\n") else None
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.process = None
        cleanup.remove(self)

    def ask(self, command, end):
        with socket.create_connection(("127.0.0.1", self.port), 10) as s:
            s.sendall(command.encode())
            got = ""
            while not got.endswith(end):
                more = s.recv(65536)
                if not more:
                    break
                got += more.decode("latin-1")
        return got

    def stats(self):
        return {name: int(value) for name, value in
                re.findall(r"STAT (\S+) (\d+)\r", self.ask("stats\r\n", "END\r\n"))}

    def sizes(self):
        """Bytes of each item as memcached counts them, by the letter its name begins with."""
        found = {}
        for key, size in re.findall(r"^key=(\S+).* size=(\d+)", self.ask("lru_crawler metadump all\r\n",
                                                                         "END\r\n"), re.M):
            found.setdefault(key[0], []).append(int(size))
        return found


def directives(docroot, memcached, key, interval):
    return (f"<Directory {docroot}>\nAllowOverride All\n</Directory>\nHtCache On\n"
            f"HtCacheRevalidate {interval}\nHtCacheMemcached 127.0.0.1:{memcached.port}\n"
            f"HtCacheMemcachedKeyFile {key}\nHtCacheMemcachedTimeout {TIMEOUT_MS}ms\n"
            "<Location /htcache-status>\nSetHandler htcache-status\n</Location>\n")


def key_file(root):
    path = os.path.join(root, "farm.key")
    with open(path, "w") as f:
        f.write("k" * 40 + "\n")
    os.chmod(path, 0o600)
    return path


def farm_of(server):
    connection = htbench.Connection(server.port)
    report = json.loads(connection.get("/htcache-status?format=json")[1])
    connection.close()
    return report["memcached"]


def make_tree(docroot, count):
    """A page and a file of some lines in each of the directories."""
    shutil.rmtree(docroot, ignore_errors=True)
    for i in range(count):
        path = f"{docroot}/{i % 20}/{i}"
        os.makedirs(path)
        with open(f"{path}/page.html", "w") as f:
            f.write("page\n")
        with open(f"{path}/.htaccess", "w") as f:
            f.write("".join(f'Header set X-Line-{n} "of directory {i}"\n' for n in range(i % 10)))


# --- sizes ------------------------------------------------------------------------------------------


def copy_files(tree, docroot):
    """The .htaccess files of a tree, and nothing else of it; returns their sizes."""
    shutil.rmtree(docroot, ignore_errors=True)
    sizes = []
    for directory, _, files in os.walk(tree):
        to = os.path.join(docroot, os.path.relpath(directory, tree))
        os.makedirs(to, exist_ok=True)
        if ".htaccess" in files:
            shutil.copyfile(os.path.join(directory, ".htaccess"), os.path.join(to, ".htaccess"))
            sizes.append(os.path.getsize(os.path.join(to, ".htaccess")))
    return sizes


def ask_everywhere(server, docroot):
    connection = htbench.Connection(server.port)
    for directory, _, _ in os.walk(docroot):
        path = "/" + os.path.relpath(directory, docroot) + "/none.html"
        try:
            connection.get(path.replace("/./", "/").replace(" ", "%20"))
        except ConnectionError:  # after an error the server may close it
            connection = htbench.Connection(server.port)
    connection.close()


def describe(name, sizes):
    if sizes:
        print(f"{len(sizes)} {name}: {statistics.mean(sizes):.0f} bytes each in the mean, "
              f"{min(sizes)} to {max(sizes)}")


def traffic(name, before, after, servers_before, servers_after):
    exchanges = servers_after["exchanges"] - servers_before["exchanges"]
    asked = after["cmd_get"] - before["cmd_get"] + after["cmd_set"] - before["cmd_set"]
    print(f"{name}: {exchanges} exchanges; to memcached {after['bytes_read'] - before['bytes_read']} bytes, "
          f"from it {after['bytes_written'] - before['bytes_written']}; for each of {asked} items got or "
          f"stored {(after['bytes_read'] - before['bytes_read']) / asked:.0f} and "
          f"{(after['bytes_written'] - before['bytes_written']) / asked:.0f}")


def sizes(root, tree, module):
    docroot = os.path.join(root, "farm-sizes")
    if tree:
        files = copy_files(tree, docroot)
    else:
        make_tree(docroot, DIRECTORIES)
        files = [os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(docroot) for f in fs
                 if f == ".htaccess"]
    directories = sum(1 for _ in os.walk(docroot))
    print(f"{directories} directories, {len(files)} files of {statistics.mean(files):.0f} bytes in the mean")
    htbench.wait_until_old()
    key = key_file(root)
    with_room = Memcached("-m", "1024").start()
    conf = directives(docroot, with_room, key, "1h")
    for name in ("the first server, which finds nothing", "a second server, which finds all"):
        with htbench.Httpd(root, "farm-sizes-httpd", docroot, conf, module, processes=1).start() as server:
            # The way to the root is known.
            farm_of(server)
            connection = htbench.Connection(server.port)
            connection.get("/none.html")
            connection.close()
            before, there = with_room.stats(), farm_of(server)["servers"][0]
            ask_everywhere(server, docroot)
            traffic(name, before, with_room.stats(), there, farm_of(server)["servers"][0])
            farm = farm_of(server)
    items = with_room.sizes()
    describe("leases", items.get("l", []))
    describe("records", items.get("r", []))
    records = items.get("r", [])
    if records:
        print(f"records take {sum(records) / sum(files):.2f} times the bytes of all files; "
              f"a GB holds {(1 << 30) / statistics.mean(records):.0f} of them or "
              f"{(1 << 30) / statistics.mean(items['l']):.0f} leases")
    print("kept local: " + ", ".join(f"{k[6:]} {v}" for k, v in farm.items() if k.startswith("local_")))
    with_room.stop()
    shutil.rmtree(docroot, ignore_errors=True)


# --- the longest request ------------------------------------------------------------------------------


class Client(threading.Thread):
    """Asks for one directory after the other until it is told to stop."""

    def __init__(self, port, first):
        super().__init__(daemon=True)
        self.port, self.first = port, first
        self.times, self.failed, self.stopped = [], 0, False

    def run(self):
        connection = htbench.Connection(self.port)
        i = self.first
        while not self.stopped:
            i = (i + 1) % DIRECTORIES
            begin = time.monotonic()
            try:
                status = connection.get(f"/{i % 20}/{i}/page.html")[0]
            except (OSError, ValueError):
                status, connection = 0, htbench.Connection(self.port)
            self.times.append(time.monotonic() - begin)
            self.failed += status != 200
        connection.close()


def flood(port, seconds):
    """Values as fast as memcached takes them, and connections."""
    end, n = time.monotonic() + seconds, 0
    held = [socket.create_connection(("127.0.0.1", port), 1) for _ in range(40)]
    block = b"f" * 5000
    try:
        while time.monotonic() < end:
            with socket.create_connection(("127.0.0.1", port), 1) as s:
                for _ in range(200):
                    n += 1
                    s.sendall(b"set flood-%d 0 60 5000 noreply\r\n%s\r\n" % (n, block))
    except OSError:
        pass
    for s in held:
        s.close()


def faults(memcached, seconds):
    """All four, in the given time."""
    part = seconds / 4
    memcached.process.send_signal(signal.SIGSTOP)
    time.sleep(part)
    memcached.process.send_signal(signal.SIGCONT)
    time.sleep(part / 2)
    memcached.stop()
    time.sleep(part)
    memcached.start()
    time.sleep(part / 2)
    memcached.stop()
    memcached.start()
    # A process of its own, so that it does not keep the clients from their clocks.
    one = multiprocessing.get_context("fork").Process(target=flood, args=(memcached.port, part), daemon=True)
    one.start()
    one.join()


def load(server, memcached, seconds, bad):
    clients = [Client(server.port, i * DIRECTORIES // CLIENTS) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    if bad:
        faults(memcached, seconds)
    else:
        time.sleep(seconds)
    for client in clients:
        client.stopped = True
    for client in clients:
        client.join()
    times = sorted(t for client in clients for t in client.times)
    return {"requests": len(times), "failed": sum(client.failed for client in clients),
            "median": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "longest": times[-1],
            "memcached": farm_of(server)["longest_us"] / 1e6}


def longest(root, module, rounds, seconds):
    docroot = os.path.join(root, "farm-longest")
    make_tree(docroot, DIRECTORIES)
    htbench.wait_until_old()
    key, pairs = key_file(root), []
    for i in range(rounds):
        pair = {}
        for bad in (False, True) if i % 2 == 0 else (True, False):
            memcached = Memcached("-m", "8", "-c", "256").start()
            with htbench.Httpd(root, "farm-longest-httpd", docroot,
                               directives(docroot, memcached, key, "200ms"), module).start() as server:
                pair[bad] = load(server, memcached, seconds, bad)
            memcached.stop()
        pairs.append(pair)
        for bad in (False, True):
            r = pair[bad]
            print(f"pair {i + 1}, {'with faults' if bad else 'without    '}: {r['requests']} requests, "
                  f"{r['failed']} failed; ms: median {r['median'] * 1e3:.2f}, 99 % {r['p99'] * 1e3:.2f}, "
                  f"longest {r['longest'] * 1e3:.1f}; the most on memcached {r['memcached'] * 1e3:.1f}",
                  flush=True)
    more = [p[True]["longest"] - p[False]["longest"] for p in pairs]
    print(f"the longest request takes {statistics.median(more) * 1e3:.1f} ms more with faults (median of "
          f"{rounds} pairs, {min(more) * 1e3:.1f} to {max(more) * 1e3:.1f}); HtCacheMemcachedTimeout is "
          f"{TIMEOUT_MS} ms")
    htbench.save("farm-longest", [{str(k): v for k, v in p.items()} for p in pairs])
    shutil.rmtree(docroot, ignore_errors=True)


def main():
    arguments = sys.argv[1:]
    what = arguments.pop(0) if arguments and arguments[0] in ("sizes", "longest") else "sizes"
    tree = arguments.pop(0) if what == "sizes" and arguments else None
    module = os.path.abspath(arguments.pop(0) if arguments else
                             os.path.join(HERE, "..", "src", ".libs", "mod_htcache.so"))
    root = htbench.workdir()
    cleanup.install()
    if what == "sizes":
        sizes(root, tree, module)
    else:
        longest(root, module, int(arguments[0]) if arguments else 5,
                float(arguments[1]) if arguments[1:] else 12)


main()
