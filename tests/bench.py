#!/usr/bin/env python3
# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Tests of the benchmarks themselves: figures are summed up rightly and kept safely, the report and README say what the
results say, no result names a place on the machine, whatever is started is gone after Ctrl-C or a kill, and an
experiment runs from end to end. HTCACHE_BENCH_LONG=1 runs a smoke run of every experiment."""

import argparse
import json
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from xml.dom import minidom

TOP = os.path.abspath(os.environ.get("srcdir", "."))
BUILD = os.path.abspath(".")
BENCH = os.path.join(TOP, "bench")
sys.path.insert(0, BENCH)

import htbench
from exp import claims
from kit import counts, load, report, results, stats, svg

SLOWFS = os.path.join(BUILD, "bench", "slowfs")


class Figures(unittest.TestCase):
    def turns(self, names, rounds, **more):
        """What in_turn() makes of servers whose throughput falls by one with each turn, and halves for "b"."""
        order, starts = [], dict.fromkeys(names, 0)

        class Server:
            def __init__(self, name):
                self.port = name

            def start(self):
                starts[self.port] += 1

            def stop(self):
                pass

        def run(name):
            order.append(name)
            return {"rate": (1000.0 - len(order)) / (2 if name == "b" else 1), "longest": len(order), "failed": 1}
        every = {name: load.Contender(Server(name), run) for name in names}
        return load.in_turn(every, "a", rounds, **more), "".join(order), starts

    def test_in_turn(self):
        figures, order, starts = self.turns("ab", 6, restart=4)
        self.assertEqual(order, "ab" + "aba" + "ba" * 3 + "ab" + "aba" + "ba")
        self.assertEqual(starts, {"a": 2, "b": 2})
        self.assertEqual(figures["rounds"], 6)
        self.assertEqual(figures["contenders"]["a"]["ratio"]["median"], 1)
        ratio = figures["contenders"]["b"]["ratio"]
        for key in ("low", "median", "high"):  # an even drift drops out
            self.assertAlmostEqual(ratio[key], .5, 12)
        self.assertEqual(ratio["n"], 6)
        self.assertEqual(figures["contenders"]["b"]["failed"], 6)

    def test_in_turn_with_many(self):
        figures, order, _ = self.turns("abcd", 2, restart=0)
        self.assertEqual(order, "abcd" + "abcada" + "dcaba")
        for name, wanted in (("b", .5), ("c", 1), ("d", 1)):
            self.assertEqual(len(figures["contenders"][name]["ratios"]), 2)
            for ratio in figures["contenders"][name]["ratios"]:
                self.assertAlmostEqual(ratio, wanted, 12)

    def test_time_ends_it(self):
        self.assertEqual(self.turns("ab", 50, restart=0, seconds=1e-9)[0]["rounds"], 1)
        self.assertEqual(self.turns("ab", 50, restart=0, seconds=1e-9, least=7)[0]["rounds"], 7)

    def test_quotient(self):
        figures = self.turns("abcd", 4, restart=0)[0]
        self.assertAlmostEqual(load.quotient(figures, "b", "d")["median"], .5, 3)
        self.assertIsNone(load.quotient(figures, "b", "none"))
        self.assertIsNone(load.quotient(figures, "b", "d", "cpu_ratios"))

    def test_who_fails_is_left_out(self):
        class Server:
            port = 0

        def good(_):
            return {"rate": 5}

        def bad(_):
            raise load.Failed("refused by 127.0.0.1:80")

        def silent(_):
            return {"rate": 0.0}
        made = {"a": load.Contender(Server(), bad), "b": load.Contender(Server(), good)}
        figures = load.in_turn(made, "a", 3, restart=0)
        self.assertEqual((figures["base"], list(figures["contenders"])), ("b", ["b"]))
        self.assertEqual(figures["left_out"], {"a": "refused by it"})
        made = {"a": load.Contender(Server(), silent), "b": load.Contender(Server(), good)}
        figures = load.in_turn(made, "b", 3, restart=0)
        self.assertEqual((list(figures["contenders"]), list(figures["left_out"])), (["b"], ["a"]))

    def test_by_starts(self):
        """Servers whose processor time grows by a microsecond for a request with each turn, and is twice as much for "b"."""
        order, begun, ended, spent = [], [], [], {"a": 0.0, "b": 0.0, "c": 0.0}

        class Server:
            def __init__(self, name):
                self.port = self.name = name
                self.process = argparse.Namespace(pid=name)

        def run(name):
            order.append(name)
            spent[name] += (100 + len(order)) * (200 if name == "b" else 100) / 1e6
            return {"rate": 50.0 if name == "b" else 100.0, "requests": 100, "failed": 1}
        every = {name: load.Contender(Server(name), run) for name in "abc"}
        with unittest.mock.patch.object(load, "REPLACED", 0), unittest.mock.patch.object(load, "FEW", 2), \
                unittest.mock.patch.object(stats, "cpu_seconds", lambda pid: spent[pid]):
            figures = load.by_starts(every, "a", lambda number, names: begun.append((number, "".join(names))), ended.append, 0,
                                     few=("c",), least=3)
        self.assertEqual(begun, [(0, "abc"), (1, "bac"), (2, "ab")])
        self.assertEqual((ended, figures["rounds"]), ([0, 1, 2], 3))
        self.assertEqual("".join(order), "abcba" + "bacab" + "abba")
        self.assertEqual({name: len(one["starts"]) for name, one in figures["contenders"].items()}, {"a": 3, "b": 3, "c": 2})
        c = figures["contenders"]["c"]  # each of its turns lies in the middle of the base's, of the same starts
        self.assertAlmostEqual(c["cpu_ratio"]["median"], 1, 12)
        b = figures["contenders"]["b"]
        for value in (b["cpu_ratio"]["median"], *b["cpu_ratio"]["ci"]):
            self.assertAlmostEqual(value, 2, 12)  # an even drift drops out
        self.assertAlmostEqual(b["ratio"]["median"], .5, 12)
        self.assertEqual([b["starts"][0][1], b["failed"]], [200, 6])

    def test_of_totals(self):
        ours, theirs = [(10, 10), (60, 20), (30, 10)], [(10, 10), (10, 10), (10, 10)]
        entry = stats.of_totals(ours, theirs)
        self.assertEqual((entry["median"], entry["low"], entry["high"], entry["n"]), (2.5, 2, 3, 3))
        self.assertEqual(entry["ci"], [1, 3])  # three times the first, three times others
        self.assertNotIn("ci", stats.of_totals(ours[:2], theirs[:2]))

    def test_spread(self):
        self.assertEqual(stats.spread([3]), {"median": 3, "low": 3, "high": 3, "n": 1})
        self.assertEqual(stats.spread([1, 2, 3, 4, 5]), {"low": 2, "median": 3, "high": 4, "n": 5})
        self.assertEqual(stats.spread([1, 2, 3, 4, 6, 5])["ci"], [1, 6])

    def test_interval_of_the_median(self):
        """Ranks as printed in tables of order statistics: the smallest and largest value of 6, the second of 9, ..."""
        ranks = {5: None, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 20: 5, 25: 7, 30: 9, 50: 17, 100: 39}
        self.assertEqual({n: stats.median_rank(n) for n in ranks}, ranks)

    def test_words(self):
        self.assertEqual(stats.text(stats.spread([1.0])), "1.000")
        self.assertEqual(stats.text(stats.spread([.9, .9, .9, 1, 1, 1])), "0.950 [0.900, 1.000] (0.900 to 1.000)")

    def test_processor_time(self):
        child = subprocess.Popen([sys.executable, "-c", "import subprocess, sys\nwhile sum(range(9999)): print(flush=True)"],
                                 stdout=subprocess.PIPE)
        self.addCleanup(child.stdout.close)
        before = stats.cpu_seconds(child.pid)
        for _ in range(200):
            child.stdout.readline()
        self.assertGreater(stats.cpu_seconds(child.pid), before)
        child.kill()
        child.wait()
        self.assertEqual(stats.cpu_seconds(child.pid), 0)

    def test_milliseconds(self):
        self.assertEqual([load.milliseconds(t) for t in ("250.00us", "1.5ms", "2.00s")], [.25, 1.5, 2000])

    def test_standing(self):
        def verdict(*arguments):
            return report.Standing("", "", *arguments).verdict()
        self.assertEqual([verdict(.94), verdict(.96), verdict(1.04), verdict(1.06)], ["behind", "level", "level", "ahead"])
        self.assertEqual([verdict(x, "lower") for x in (1.06, 1.04, .5)], ["behind", "level", "ahead"])
        spread = [{"median": .97, "low": .9, "high": 1, "ci": ci} for ci in ([.95, .99], [.95, 1.01], [.96, 1.2])]
        self.assertEqual([verdict(s) for s in spread], ["behind", "level", "level"])
        self.assertEqual(verdict({"median": .9, "low": .9, "high": .9, "ci": [.5, 1.5]}), "behind")
        self.assertEqual(verdict({"median": .9, "low": .9, "high": .9, "ci": [.8, .95]}, "lower"), "ahead")

    def test_every_part_has_its_time(self):
        total = 0
        for name in report.EXPERIMENTS:
            module = report.experiment(name)
            self.assertEqual(set(module.SECONDS), set(module.PARTS), name)
            self.assertLessEqual(set(module.EXACT), set(module.PARTS), name)
            total += sum(seconds[1] for seconds in module.SECONDS.values())
        self.assertLess(total, 105 * 60, "make bench is to take an hour and three quarters")


class Kept(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.store = results.Results(self.dir)

    def save(self, effort, value, **more):
        return self.store.save("x", "p", effort, {}, "v", 1, {"value": value}, **more)

    def value(self):
        return self.store.load("x")["p"]["figures"]["value"]

    def test_shorter_runs_replace_nothing(self):
        self.assertTrue(self.save("full", 1))
        self.assertFalse(self.save("short", 2))
        self.assertEqual(self.value(), 1)
        self.assertTrue(self.save("full", 3))
        self.assertEqual(self.value(), 3)
        self.assertTrue(self.save("short", 4, force=True))
        self.assertEqual(self.value(), 4)

    def test_what_is_there(self):
        self.assertFalse(self.store.has("x", "p", "short"))
        self.save("short", 1)
        self.assertTrue(self.store.has("x", "p", "short"))
        self.assertFalse(self.store.has("x", "p", "full"))
        self.assertFalse(self.store.has("x", "other", "short"))

    def test_parts_are_apart(self):
        self.save("full", 1)
        self.store.save("x", "q", "short", {}, "v", 1, {})
        self.assertEqual(sorted(self.store.load("x")), ["p", "q"])


class Plots(unittest.TestCase):
    def test_plot(self):
        text = svg.plot("a < b", "x", "y", {"one & two": [(1, 10), (10, 400)], "b": [(1, 3), (100, 50)]}, log_x=True)
        document = minidom.parseString(text)
        self.assertEqual(len(document.getElementsByTagName("polyline")), 2)
        self.assertEqual(len(document.getElementsByTagName("circle")), 4)

    def test_edges(self):
        for lines in ({"a": [(1, 1)]}, {"a": [(0, 0), (5, 0)]}, {"a": [(1, 7), (2, 7)]}, {"a": [(1, .001), (9, 1e7)]}):
            for log in (False, True):
                minidom.parseString(svg.plot("t", "x", "y", lines, log_x=log, log_y=log))
        self.assertIsNone(svg.plot("t", "x", "y", {"a": []}))


class Written(unittest.TestCase):
    """What is under version control."""

    def test_experiments(self):
        for name in report.EXPERIMENTS:
            module = report.experiment(name)
            for attribute in ("TITLE", "ABOUT", "PACKAGES", "PARTS", "standing", "report"):
                self.assertTrue(hasattr(module, attribute), f"{name}.{attribute}")
            self.assertTrue(module.PARTS)

    def test_results_name_no_place(self):
        place = re.compile(r"/(tmp|var|home|root|work|build|usr|mnt|srv)\b|" + re.escape(os.uname().nodename) + r"\b")
        directory = os.path.join(BENCH, "results")
        for file in os.listdir(directory) if os.path.isdir(directory) else ():
            with open(os.path.join(directory, file)) as f:
                text = f.read()
            self.assertIsNone(place.search(text), file)
            for part in json.loads(text)["parts"].values():
                self.assertIn(part["effort"], results.EFFORTS[1:], file)

    def test_report_says_what_the_results_say(self):
        with tempfile.TemporaryDirectory() as out:
            if os.path.isdir(os.path.join(BENCH, "results")):
                shutil.copytree(os.path.join(BENCH, "results"), os.path.join(out, "results"))
            report.write(out)
            made = [os.path.join("plots", f) for f in os.listdir(os.path.join(out, "plots"))] \
                if os.path.isdir(os.path.join(out, "plots")) else []
            for name in ["REPORT.md"] + made:
                with open(os.path.join(out, name)) as new, open(os.path.join(BENCH, name)) as old:
                    self.assertEqual(new.read(), old.read(), f"{name}: make bench-report")

    def test_reports_without_a_contender_that_failed(self):
        def lists_of_contenders(figures):
            if isinstance(figures, dict):
                if isinstance(figures.get("contenders"), dict):
                    yield figures["contenders"]
                for value in figures.values():
                    yield from lists_of_contenders(value)
        store = results.Results(os.path.join(BENCH, "results"))
        for name in report.EXPERIMENTS:
            kept = {part: p["figures"] for part, p in store.load(name).items()}
            contenders = {c for found in lists_of_contenders(kept) for c in found}
            for failed in contenders:
                figures = json.loads(json.dumps(kept))
                for found in lists_of_contenders(figures):
                    found.pop(failed, None)
                with self.subTest(experiment=name, failed=failed), tempfile.TemporaryDirectory() as out:
                    for s in report.experiment(name).standing(figures):
                        s.verdict()
                    report.experiment(name).report(report.Page(out), figures)

    def test_readme_says_what_the_results_say(self):
        subprocess.run([sys.executable, os.path.join(BENCH, "readme.py"), "--check"], check=True,
                       stdout=subprocess.DEVNULL)


# --- with servers ---------------------------------------------------------------------------------------

HELD = """
import sys, time
sys.path.insert(0, sys.argv[1])
import htbench
from kit import cleanup, counts
cleanup.install()
root, slowfs = sys.argv[2:4]
pids = []
if slowfs:
    fs = counts.SlowFs(slowfs, root + "/source", root + "/mount", "--set", "cache=60")
    pids.append(fs.process.pid)
one = htbench.Httpd(root, "held", root + "/mount", "").start()
print("ready", *pids, *counts.processes_of(one.process.pid), flush=True)
time.sleep(600)
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(.05)
    return False


class Turns(unittest.TestCase):
    """bench/turns.c beside a server that says what it was asked, and may misbehave."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="htcache-turns-")
        cls.program = os.path.join(cls.root, "turns")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-D_GNU_SOURCE", "-o", cls.program,
                        os.path.join(BENCH, "turns.c")], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def serve(self, answer):
        """A server on a port of its own; answer(n) is the n-th answer, or None to close instead."""
        asked = []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while self.rfile.readline() not in (b"", b"\r\n"):
                    while self.rfile.readline() not in (b"", b"\r\n"):
                        pass
                    asked.append(1)
                    text = answer(len(asked))
                    if text is None:
                        return
                    self.wfile.write(text)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1], asked

    def run_turns(self, one, other):
        (port, asked), (other_port, other_asked) = self.serve(one), self.serve(other)
        done = subprocess.run([self.program, "30", "3", "2", str(port), "/a", str(os.getpid()), str(other_port), "/b", ""],
                              capture_output=True, text=True, timeout=60)
        return done, len(asked), len(other_asked)

    def test_both_are_asked_in_turn(self):
        done, asked, other_asked = self.run_turns(lambda n: answer("200 OK"), lambda n: answer("301 Moved", 7))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
        self.assertEqual([len(line) for line in lines], [4, 4, 4])
        for us, cpu, other_us, other_cpu in lines:
            self.assertGreater(min(us, cpu, other_us), 0)
            self.assertEqual(other_cpu, 0)  # no process was named
        self.assertEqual([asked, other_asked], [1 + 3 * 30 + 3 * (20 + 30)] * 2)

    def test_a_closed_connection_is_opened_again(self):
        done, asked, _ = self.run_turns(lambda n: None if n == 70 else answer("200 OK"), lambda n: answer("200 OK"))
        self.assertEqual((done.returncode, len(done.stdout.splitlines()), asked), (0, 3, 1 + 3 * 30 + 3 * (20 + 30) + 1))

    def test_another_answer_ends_it(self):
        for wrong, said in ((answer("404 Not Found"), "another status"), (answer("200 OK", 4000), "another length")):
            done, _, _ = self.run_turns(lambda n: answer("200 OK"), lambda n: wrong if n == 150 else answer("200 OK"))
            self.assertEqual(done.returncode, 1, wrong)
            self.assertIn(said, done.stderr)


def answer(status, length=20):
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{'x' * length}".encode()


class Servers(unittest.TestCase):
    def setUp(self):
        try:
            htbench.httpd_binary()
        except SystemExit as why:  # as where the package for Debian is built
            self.skipTest(str(why))
        self.root = tempfile.mkdtemp()
        os.chmod(self.root, 0o755)
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        for name in ("source", "mount"):
            os.mkdir(os.path.join(self.root, name))

    def mountable(self):
        """Whether this user may mount, as t/TEST finds out, too."""
        if counts.usable(SLOWFS):
            return False
        mount = os.path.join(self.root, "mount")
        if subprocess.run([SLOWFS, self.root + "/source", mount], stderr=subprocess.DEVNULL).returncode:
            return False
        subprocess.run(["fusermount3", "-u", mount], check=True)
        return True

    def gone_after(self, signum):
        slowfs = SLOWFS if self.mountable() else ""
        holder = subprocess.Popen([sys.executable, "-c", HELD, BENCH, self.root, slowfs], stdout=subprocess.PIPE,
                                  text=True)
        self.addCleanup(holder.stdout.close)
        line = holder.stdout.readline().split()
        self.assertEqual(line[:1], ["ready"])
        pids = [int(p) for p in line[1:]]
        self.assertTrue(all(alive(p) for p in pids))
        self.assertEqual(os.path.exists(self.root + "/mount/.slowfs"), bool(slowfs))
        holder.send_signal(signum)
        holder.wait(120)
        self.assertTrue(wait_until(lambda: not any(alive(p) for p in pids)), "servers are left")
        self.assertTrue(wait_until(lambda: not os.path.exists(self.root + "/mount/.slowfs")), "a mount is left")
        return holder.returncode

    def test_nothing_is_left_after_ctrl_c(self):
        self.assertEqual(self.gone_after(signal.SIGINT), 128 + signal.SIGINT)

    def test_nothing_is_left_after_a_kill(self):
        self.assertEqual(self.gone_after(signal.SIGKILL), -signal.SIGKILL)

    def bench(self, *names):
        environment = dict(os.environ, BENCH_DIR=self.root)
        return subprocess.run([sys.executable, os.path.join(BENCH, "bench.py"), "--quick", "--no-install", "--build",
                               BUILD, "--out", os.path.join(self.root, "out"), *names], env=environment,
                              capture_output=True, text=True, timeout=900)

    def test_an_experiment_runs(self):
        if not shutil.which("ab"):
            self.skipTest("there is no ab")
        names = [] if os.environ.get("HTCACHE_BENCH_LONG") else ["htaccess:local"]
        out = self.bench(*names)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("htaccess:local", out.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.root, "out")), "a smoke run keeps no figures")

    def test_a_run_ended_by_ctrl_c_leaves_nothing(self):
        """As a terminal sends it: to the benchmark and to the client that runs just then."""
        if not shutil.which("ab"):
            self.skipTest("there is no ab")
        part = "htaccess:lustre" if self.mountable() else "htaccess:local"
        run = subprocess.Popen([sys.executable, os.path.join(BENCH, "bench.py"), "--quick", "--no-install", "--build", BUILD,
                                "--out", os.path.join(self.root, "out"), part], start_new_session=True, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, env=dict(os.environ, BENCH_DIR=self.root))
        mount = os.path.join(self.root, "run", "mount")

        def under_way():
            mounted = os.path.exists(os.path.join(mount, ".slowfs")) or part == "htaccess:local"
            return run.poll() is not None or mounted and len(stats.processes_of(run.pid)) >= 4
        self.assertTrue(wait_until(under_way, 120))
        pids = stats.processes_of(run.pid)[1:]
        os.killpg(run.pid, signal.SIGINT)
        self.assertEqual(run.wait(120), 128 + signal.SIGINT)
        self.assertTrue(wait_until(lambda: not any(alive(p) for p in pids)), "processes are left")
        with open("/proc/mounts") as f:
            self.assertNotIn(mount, f.read())
        self.assertFalse(os.path.exists(os.path.join(self.root, "run")), "a directory is left")

    def test_the_table_is_compiled(self):
        """What "claims" compiles of the module's source, here without the peers it compares with."""
        program = os.path.join(self.root, "redirect_table")
        claims.compile_table(program)
        out = subprocess.run([program, "1000", "1"], capture_output=True, text=True, timeout=60)
        self.assertIn("1000 rows", out.stdout)

    def test_wrong_names_are_refused(self):
        self.assertNotEqual(self.bench("none").returncode, 0)
        self.assertNotEqual(self.bench("htaccess:none").returncode, 0)


if __name__ == "__main__":
    unittest.main()
