# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Private instances of the servers that httpd is compared with, on 127.0.0.1 and on the first processor, as
htbench.Httpd is. Each has start(), stop(), port, dir and process; start() returns when it answers."""

import os
import pwd
import shutil
import socket

import htbench
from kit import cleanup


class Peer:
    program = ""

    def __init__(self, root, name, text):
        self.dir = os.path.join(root, name)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.port = htbench.free_port()
        self.process = None
        self.conf = os.path.join(self.dir, "conf")
        self.prepare(text)
        self.give_away()

    def give_away(self):
        if os.getuid() == 0:
            for directory, _, files in os.walk(self.dir):
                for path in [directory] + [os.path.join(directory, f) for f in files]:
                    shutil.chown(path, htbench.USER, htbench.USER)

    def write(self, path, text):
        with open(path, "w") as f:
            f.write(text)

    def start(self, wrapper=(), single=False, demote=False, timeout=240):
        options = {}
        if demote and os.getuid() == 0:
            self.give_away()  # a start as root may have left logs
            entry = pwd.getpwnam(htbench.USER)
            options = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.log = open(os.path.join(self.dir, "stderr"), "w")
        self.process = cleanup.start(htbench.pinned(0) + list(wrapper) + self.command(single), stdout=self.log,
                                     stderr=self.log, cwd=self.dir, **options)
        cleanup.add(self)
        cleanup.wait_for(self.answers, self.program, self.process, timeout)
        return self

    def answers(self):
        """A complete answer, not only an open port: some listen before they have read their rules."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as s:
                s.settimeout(60)
                s.sendall(b"GET /is-it-up HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return s.recv(12).startswith(b"HTTP/1.")
        except OSError:
            return False

    def stop(self):
        if self.process:
            cleanup.end(self.process)
            self.log.close()
        self.process = None
        cleanup.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Nginx(Peer):
    program = "nginx"

    def prepare(self, text, workers=2):
        """`text`: what stands in http{}; @PORT@ is replaced."""
        user = f"user {htbench.USER};\n" if os.getuid() == 0 else ""
        temporary = "".join(f"{name}_temp_path {self.dir}/tmp;\n" for name in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        self.write(self.conf, f"{user}worker_processes {workers};\npid {self.dir}/pid;\n"
                   f"error_log {self.dir}/error_log warn;\nworker_rlimit_nofile 65536;\n"
                   "events { worker_connections 16384; }\nhttp {\ndefault_type text/html;\n"
                   f"keepalive_requests 1000000000;\nserver_tokens off;\n{temporary}"
                   + text.replace("@PORT@", str(self.port)) + "\n}\n")

    def command(self, single):
        more = " master_process off;" if single else ""
        return ["nginx", "-e", os.path.join(self.dir, "error_log"), "-c", self.conf, "-g",
                "daemon off;" + more]


class Haproxy(Peer):
    program = "haproxy"

    def prepare(self, text):
        self.write(self.conf, "global\n    maxconn 4000\n    nbthread 1\n"
                   "defaults\n    mode http\n    timeout client 60s\n    timeout connect 5s\n"
                   "    timeout server 60s\n    timeout http-keep-alive 60s\n"
                   + text.replace("@PORT@", str(self.port)) + "\n")

    def command(self, single):
        return ["haproxy", "-db", "-f", self.conf]


class TrafficServer(Peer):
    """`text` is remap.config. Objects come from memory; nothing is logged."""
    program = "traffic_server"

    def prepare(self, text):
        for name in ("etc", "run", "log", "cache", "data"):
            os.mkdir(os.path.join(self.dir, name))
        where = {"sysconfdir": "etc", "runtimedir": "run", "logdir": "log", "cachedir": "cache",
                 "datadir": "data", "localstatedir": "."}
        own = "".join(f"{key}: {os.path.join(self.dir, name)}\n" for key, name in where.items())
        self.write(self.conf, "prefix: /usr\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\n"
                   "includedir: /usr/include\nlibdir: /usr/lib/trafficserver\n"
                   "libexecdir: /usr/lib/trafficserver/modules\n" + own)
        etc = os.path.join(self.dir, "etc")
        shutil.copytree("/etc/trafficserver/body_factory", os.path.join(etc, "body_factory"))
        for name in ("ip_allow.yaml", "logging.yaml", "sni.yaml"):
            shutil.copy(os.path.join("/etc/trafficserver", name), etc)
        self.write(os.path.join(etc, "storage.config"), os.path.join(self.dir, "cache") + " 64M\n")
        self.write(os.path.join(etc, "remap.config"), text.replace("@PORT@", str(self.port)))
        user = htbench.USER if os.getuid() == 0 else "#-1"
        settings = {"http.server_ports": f"STRING {self.port}:ip-in=127.0.0.1",
                    "admin.user_id": f"STRING {user}", "exec_thread.autoconfig": "INT 0",
                    "exec_thread.limit": "INT 2", "log.logging_enabled": "INT 0",
                    "url_remap.remap_required": "INT 1", "crash_log_helper": "STRING NULL",
                    "http.cache.required_headers": "INT 0",
                    "http.keep_alive_no_activity_timeout_in": "INT 120",
                    "cache.ram_cache.size": "INT 67108864"}
        self.write(os.path.join(etc, "records.config"),
                   "".join(f"CONFIG proxy.config.{key} {value}\n" for key, value in settings.items()))

    def command(self, single):
        return ["traffic_server", f"--run-root={self.conf}"]
