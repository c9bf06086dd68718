# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the benchmarks share: a private httpd on 127.0.0.1, directory trees to serve, requests over one
keep-alive connection, exact instruction counts by callgrind, and throughput in pairs run in turn."""

import atexit
import json
import os
import pwd
import random
import re
import shutil
import socket
import statistics
import subprocess
import time

from kit import cleanup, stats

# The modules that Debian enables by default, less the MPM.
DEBIAN_MODULES = """access_compat alias auth_basic authn_core authn_file authz_core authz_host authz_user
autoindex deflate dir env expires filter headers mime negotiation reqtimeout rewrite setenvif
status""".split()

USER = "www-data"


def apxs(name):
    return subprocess.check_output([os.environ.get("APXS", "apxs"), "-q", name], text=True).strip()


def httpd_binary():
    for name in (os.path.join(apxs("SBINDIR"), apxs("PROGNAME")), "/usr/sbin/apache2",
                 "/usr/sbin/httpd"):
        if os.access(name, os.X_OK):
            return name
    raise SystemExit("no httpd found: apxs -q SBINDIR and PROGNAME name none")


def free_port():
    """Below those that the kernel gives to clients: thousands of connections take them between choice and start."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        end = int(f.read().split()[0])
    for _ in range(1000):
        with socket.socket() as s:
            try:
                port = random.randrange(max(1024, end - 16000), end)
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise SystemExit("no free port found")


class Httpd:
    """One private server. `directives` is configuration text; `module` the path of mod_htcache.so or
    None for stock."""

    def __init__(self, root, name, docroot, directives, module=None, mpm="event", processes=2,
                 threads=16, modules=DEBIAN_MODULES, own=()):
        self.dir = os.path.join(root, name)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.port = free_port()
        self.conf = os.path.join(self.dir, "httpd.conf")
        self.process = None
        libexec = apxs("LIBEXECDIR")
        lines = [f"LoadModule mpm_{mpm}_module {libexec}/mod_mpm_{mpm}.so"]
        lines += [f"LoadModule {m}_module {libexec}/mod_{m}.so" for m in modules
                  if os.path.exists(f"{libexec}/mod_{m}.so")]
        if module:
            lines.append(f"LoadModule htcache_module {module}\nHtCacheCountersFile Off")
        lines += [f"LoadModule {m}_module {libexec}/mod_{m}.so" for m in own]
        lines += [f"ServerRoot {self.dir}", f"DefaultRuntimeDir {self.dir}",
                  f"PidFile {self.dir}/pid", f"ErrorLog {self.dir}/error_log", "LogLevel warn",
                  f"Listen 127.0.0.1:{self.port}", "ServerName localhost",
                  f"DocumentRoot {docroot}", "KeepAlive On", "MaxKeepAliveRequests 0",
                  "KeepAliveTimeout 30", "TypesConfig /etc/mime.types",
                  f"StartServers {processes}", f"ServerLimit {max(processes, 4)}",
                  "<Directory />\nAllowOverride None\nRequire all granted\n</Directory>"]
        if mpm == "prefork":
            lines += [f"MaxRequestWorkers {max(processes, 4)}", f"MinSpareServers {processes}",
                      f"MaxSpareServers {processes}"]
        else:
            lines += [f"ThreadsPerChild {threads}", f"MaxRequestWorkers {processes * threads}",
                      f"MinSpareThreads {threads}", f"MaxSpareThreads {processes * threads}"]
        if os.getuid() == 0:
            lines += [f"User {USER}", f"Group {USER}"]
            shutil.chown(self.dir, USER)
        with open(self.conf, "w") as f:
            f.write("\n".join(lines) + "\n" + directives + "\n")

    def start(self, wrapper=(), single=False, demote=False, timeout=60):
        command = pinned(0) + list(wrapper) + [httpd_binary(), "-f", self.conf]
        command += ["-X"] if single else ["-DFOREGROUND"]
        options = {}
        if demote and os.getuid() == 0:
            entry = pwd.getpwnam(USER)
            options = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            for file in os.listdir(self.dir):  # a start as root may have left logs
                shutil.chown(os.path.join(self.dir, file), USER)
        for _ in range(5):
            if self.run(command, options, timeout):
                return self
            with open(os.path.join(self.dir, "stderr")) as f:
                said = f.read()
            self.stop()
            if "Address already in use" not in said:
                break
            self.move()
        raise SystemExit(f"httpd did not start, see {self.dir}/stderr and error_log:\n{said}")

    def run(self, command, options, timeout):
        self.log = open(os.path.join(self.dir, "stderr"), "w")
        self.process = cleanup.start(command, stdout=self.log, stderr=self.log, cwd=self.dir, **options)
        cleanup.add(self)
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self.process.poll() is None
            except OSError:
                time.sleep(0.05)
        return False

    def move(self):
        """Another program took the port since it was chosen."""
        with open(self.conf) as f:
            text = f.read()
        old, self.port = self.port, free_port()
        with open(self.conf, "w") as f:
            f.write(text.replace(f"127.0.0.1:{old}\n", f"127.0.0.1:{self.port}\n"))

    def stop(self):
        if self.process and self.process.poll() is None:
            cleanup.end(self.process, 120)
            self.log.close()
        self.process = None
        cleanup.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Connection:
    """A keep-alive connection that asks with as little of its own as possible."""

    def __init__(self, port, host="localhost", headers=""):
        self.host = host
        self.headers = headers
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.buffer = b""

    def get(self, path):
        self.ask(path)
        return self.answer()

    def ask(self, path):
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n{self.headers}\r\n".encode())

    def answer(self):
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if re.search(rb"(?i)\ntransfer-encoding: chunked", head):
            return int(head.split()[1]), self.chunked()
        match = re.search(rb"(?i)\ncontent-length: (\d+)", head)
        length = int(match.group(1)) if match else 0
        while len(self.buffer) < length:
            self.more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(head.split()[1]), body

    def chunked(self):
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.more()
            size, self.buffer = self.buffer.split(b"\r\n", 1)
            length = int(size, 16)
            while len(self.buffer) < length + 2:
                self.more()
            body, self.buffer = body + self.buffer[:length], self.buffer[length + 2:]
            if not length:
                return body

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def close(self):
        self.socket.close()


def statuses(port, paths, headers=""):
    """What is answered to each path, on a connection that is opened again where an answer closed it."""
    found, connection = [], None
    for path in paths:
        for _ in range(2):
            connection = connection or Connection(port, headers=headers)
            try:
                found.append(connection.get(path)[0])
                break
            except ConnectionError:
                connection.close()
                connection = None
        else:
            raise SystemExit(f"{path}: the connection is closed again and again")
    if connection:
        connection.close()
    return found


def make_tree(docroot, depth, htaccess=None):
    """docroot/1/2/.../depth with a small page in each; `htaccess` is the text of every level's file."""
    path = docroot
    os.makedirs(path, exist_ok=True)
    url = "/"
    for level in range(depth + 1):
        if level:
            path = os.path.join(path, str(level))
            os.mkdir(path)
            url += f"{level}/"
        with open(os.path.join(path, "page.html"), "w") as f:
            f.write("<!DOCTYPE html><title>page</title><p>A small page.\n")
        if htaccess is not None:
            with open(os.path.join(path, ".htaccess"), "w") as f:
                f.write(htaccess)
            age(os.path.join(path, ".htaccess"))
    return url + "page.html"


def age(path):
    """Nothing can set ctime; benchmarks wait for it with wait_until_old()."""
    os.utime(path, (1, 1))


def wait_until_old():
    """Freshly written files are read again for every request for two seconds."""
    time.sleep(2.5)


class Instructions(float):
    """A number of instructions, with the status that was answered."""

    status = 200


def instructions(server_args, url, warm, counted, settle=0.0, statuses=(200,)):
    """Exact user-space instructions for `counted` requests after `warm` ones: the difference of two runs
    that differ in nothing else."""
    totals = []
    for extra in (0, counted):
        server = Httpd(**server_args)
        out = os.path.join(server.dir, "callgrind.out")
        server.start(wrapper=["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q"],
                     single=True, demote=True, timeout=120)
        connection = Connection(server.port)
        for i in range(warm):
            status = check(connection.get(url), statuses)
            if i == 0 and settle:
                time.sleep(settle)
        for _ in range(extra):
            check(connection.get(url), statuses)
        connection.close()
        server.stop()
        totals.append(callgrind_total(out))
    figure = Instructions((totals[1] - totals[0]) / counted)
    figure.status = status
    return figure


def check(answer, statuses=(200,)):
    if answer[0] not in statuses:
        raise SystemExit(f"unexpected answer {answer[0]}")
    return answer[0]


def callgrind_total(path):
    with open(path) as f:
        for line in f:
            if line.startswith("summary:") or line.startswith("totals:"):
                return int(line.split()[1])
    raise SystemExit(f"no total in {path}")


def pinned(cpu):
    """Command prefix that keeps a program on one processor, so that the scheduler's choices do not
    drown what is compared: the servers on the first, the client on the second."""
    return ["taskset", "-c", str(cpu)] if (os.cpu_count() or 1) > 1 else []


TURN_REQUESTS = 500
TURN_PAIRS = 12  # of one start of both servers
CONNECTIONS = 8


def turns_program():
    """bench/turns.c, compiled once for this run."""
    program = os.path.join(workdir(), f"turns-{os.getpid()}")
    if not os.path.exists(program):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns.c")
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, source], check=True)
        atexit.register(os.unlink, program)
    return program


def one_start(sides, requests, number):
    """Both servers started anew, TURN_PAIRS turns of each: [[us a, cpu a, us b, cpu b], ...]. Which of them is started first,
    and which has the first turn, goes by the start's number: what the second one gets of the machine's memory, and what the
    first one has done by then, made differences of per cents between servers that were the same."""
    command = pinned(1) + [turns_program(), str(requests), str(TURN_PAIRS), str(CONNECTIONS)]
    for server, _ in sides:
        server.stop()
    for server, url in sides if number % 2 else sides[::-1]:
        server.start()
        first = Connection(server.port)
        first.get(url)
        first.close()
    time.sleep(.5)  # all children have been started
    swapped = number // 2 % 2
    for server, url in sides[::-1] if swapped else sides:
        command += [str(server.port), url, ",".join(str(p) for p in stats.processes_of(server.process.pid))]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=900).stdout
    lines = [[float(x) for x in line.split()] for line in out.splitlines()]
    return [line[2:] + line[:2] for line in lines] if swapped else lines


def pairs(a, b, url_a, url_b, rounds, requests=TURN_REQUESTS):
    """Servers a and b in turn. One start of a server is a few per cent faster than another, for all that follows, so both are
    started anew `rounds` times, now one and now the other first; what a start gives is the median over TURN_PAIRS pairs of turns of `requests` requests,
    A B B A, some milliseconds each, so that what else the machine does falls on both. "a" and "b" are the medians of
    requests per second, "ratio" the median over all starts of a/b, "low" and "high" its quartiles, "ci" its confidence
    interval (kit/stats.py) where there are starts enough. The same with "cpu_" before: processor time of the server's
    processes in microseconds for one request, of which less is better. BENCH_PAIR_SECONDS bounds the time, once there are
    six starts."""
    sides = [(a, url_a), (b, url_b)]
    bound, begin = float(os.environ.get("BENCH_PAIR_SECONDS", 0)), time.monotonic()
    starts = []
    for i in range(rounds):
        if bound and i >= 6 and time.monotonic() - begin > bound:
            break
        lines = one_start(sides, requests, i)
        starts.append([statistics.median(line[k] for line in lines) for k in range(4)] +
                      [statistics.median(line[2] / line[0] for line in lines),
                       statistics.median(line[1] / line[3] for line in lines if line[3])])
    a.stop()
    b.stop()
    us_a, cpu_a, us_b, cpu_b, rates, cpus = zip(*starts)
    figures = {"rounds": len(starts), "turns": TURN_PAIRS, "requests": requests}
    for name, x, y, ratios in (("", [1e6 / t for t in us_a], [1e6 / t for t in us_b], rates),
                               ("cpu_", cpu_a, cpu_b, cpus)):
        ratio = stats.spread(ratios)
        figures.update({name + "a": statistics.median(x), name + "b": statistics.median(y),
                        name + "ratio": ratio["median"], name + "low": ratio["low"], name + "high": ratio["high"],
                        name + "spread": ratio})
        if "ci" in ratio:
            figures[name + "ci"] = ratio["ci"]
    return figures


def words(figures):
    """What pairs() found, in a line: median ratio, its 95 % interval, quartiles."""
    return (f"{figures['a']:.0f} / {figures['b']:.0f} requests/s, ratio {stats.text(figures['spread'])}; "
            f"{figures['cpu_a']:.1f} / {figures['cpu_b']:.1f} us of processor, ratio "
            f"{stats.text(figures['cpu_spread'])}; {figures['rounds']} starts of {figures['turns']} pairs")


def workdir():
    path = os.environ.get("BENCH_DIR", "/var/tmp/htcache-bench")
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o755)
    return path


def save(name, data):
    path = os.path.join(workdir(), name + ".json")
    with open(path, "w") as f:
        json.dump(data, f, indent=2)
        f.write("\n")
    print(f"raw figures: {path}")
