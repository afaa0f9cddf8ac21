"""Ctrl-C and other ends: loops that never end, compilers that run, and what signals do afterwards."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

LOOP = """
import nabla as nb
def forever(x):
    return nb.while_loop(lambda v: nb.sum(v) < 100, lambda v: -v, x)
"""


def start(code, **environment):
    """A Python that has said that it is ready."""
    process = subprocess.Popen([sys.executable, "-u", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    line = process.stdout.readline()
    if line != "ready\n":
        process.kill()
        raise AssertionError(line + process.communicate()[1])
    return process


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before, or while it is read
        return False


def eventually(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


class ExitTest(unittest.TestCase):
    """The interpreter ends while threads that it does not wait for use what goes away."""

    def ends_quietly(self, code):
        process = start("import nabla as nb, threading, time\n" + textwrap.dedent(code) + textwrap.dedent("""
            for _ in range(2):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.7)
            print('ready', flush=True)
        """))
        _, text = process.communicate(timeout=120)
        self.assertEqual((process.returncode, text), (0, ""))

    def test_in_compiled_calls(self):
        self.ends_quietly("""
            f = nb.jit(lambda x: nb.tanh(x @ x))
            f(nb.ones((64, 64)))
            def work():
                x = nb.ones((64, 64))
                while True:
                    f(x)
        """)

    def test_in_a_compiled_loop(self):
        self.ends_quietly("""
            def work():
                nb.jit(lambda x: nb.fori_loop(0, 10**9, lambda i, v: nb.tanh(v @ v), x))(nb.ones((64, 64)))
        """)

    def test_in_a_callback(self):
        self.ends_quietly("""
            def body(i, v):
                nb.debug.callback(lambda z: time.sleep(0.01), nb.sum(v))
                return v + 1
            def work():
                nb.jit(lambda x: nb.fori_loop(0, 10**6, body, x))(nb.ones(3))
        """)

    def test_in_eager_kernels(self):
        self.ends_quietly("""
            def work():
                x = nb.ones((1000, 1000))
                while True:
                    nb.sum(nb.tanh(x @ x)).item()
        """)

    def test_while_compiling(self):
        self.ends_quietly("""
            def work():
                n = 1
                while True:
                    nb.jit(lambda x: nb.sin(x) * n)(nb.ones(3))
                    n += 1
        """)


class InterruptTest(unittest.TestCase):
    def ends_by_keyboard(self, process):
        time.sleep(1)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        try:
            _, text = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail("it still runs")
        self.assertIn("KeyboardInterrupt", text)

    def test_a_compiled_loop(self):
        self.ends_by_keyboard(start(LOOP + "f = nb.jit(forever)\nf(nb.ones((8,)) * 1000)\nprint('ready')\n"
                                    "f(nb.ones((8,)))\n"))

    def test_an_eager_loop(self):
        self.ends_by_keyboard(start(LOOP + "print('ready')\nforever(nb.ones((8,))).tolist()\n"))

    def test_a_long_scan(self):
        self.ends_by_keyboard(start("""
            import nabla as nb
            f = nb.jit(lambda x: nb.fori_loop(0, 2**31 - 1, lambda i, v: nb.sin(v), x))
            print('ready')
            f(nb.ones((64,))).tolist()
            """))

    def test_the_caller_keeps_the_handler_that_it_had(self):
        process = start(LOOP + textwrap.dedent("""
            import signal
            seen = []
            signal.signal(signal.SIGINT, lambda *_: seen.append(1))
            f = nb.jit(forever)
            f(nb.ones((8,)) * 1000)
            print('ready')
            try:
                f(nb.ones((8,)))
            except nb.Error as e:
                assert e.code == 'E0805', e
            assert seen == [1], seen
            """))
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, text)


class ThreadsTest(unittest.TestCase):
    """Eager loops let other threads run."""

    def runs(self, code):
        process = start(LOOP + textwrap.dedent(code))
        try:
            _, text = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail("it still runs: " + process.communicate()[1])
        self.assertEqual((process.returncode, text), (0, ""))

    def test_another_thread_counts_meanwhile(self):
        self.runs("""
            import threading, time
            loop = threading.Thread(target=lambda: forever(nb.ones((8,))).tolist(), daemon=True)
            loop.start()
            print('ready')
            begin, turns = time.monotonic(), 0
            while time.monotonic() - begin < 2:
                time.sleep(0.001)
                turns += 1
            assert loop.is_alive() and turns > 40, turns
            """)

    def test_threads_that_want_values_of_one_function(self):
        self.runs("""
            import threading, time
            print('ready')
            def slow(x, trips):
                return nb.while_loop(lambda s: s[0] < trips, lambda s: (s[0] + 1, s[1] + 1), (nb.asarray(0), x))[1]
            wrong = []
            for turn in range(3):
                x = nb.zeros((2,))
                values = [slow(x + i, 3000) for i in range(6)]  # of this thread's function, not computed yet
                def look(i, values=values):
                    for j in range(len(values)):
                        k = (i + j) % len(values)
                        got = (values[k] * 1.0).tolist()
                        if got != [3000.0 + k] * 2:
                            wrong.append((i, k, got))
                threads = [threading.Thread(target=look, args=(i,)) for i in range(4)]
                for t in threads: t.start()
                more = [slow(x + 10, 500) for _ in range(4)]  # recorded where others compute
                assert more[-1].tolist() == [510.0, 510.0]
                for t in threads: t.join()
            assert not wrong, wrong
            """)

    def test_handles_that_go_and_are_written_meanwhile(self):
        self.runs("""
            import threading, time
            print('ready')
            def slow(x, trips):
                return nb.while_loop(lambda s: s[0] < trips, lambda s: (s[0] + 1, s[1] + 1), (nb.asarray(0), x))[1]
            for turn in range(4):
                values = [slow(nb.zeros((4,)), 3000 + i) for i in range(20)]
                def change():
                    time.sleep(0.02)
                    values[1][0] = 7.0
                    while len(values) > 2:
                        values.pop()
                        time.sleep(0.001)
                other = threading.Thread(target=change)
                other.start()
                first = values[0].tolist()
                other.join()
                assert first == [3000.0] * 4, first
                assert values[1].tolist() == [7.0, 3001.0, 3001.0, 3001.0], values[1].tolist()
            """)


class CompilerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.pids = pathlib.Path(self.folder.name, "pids")

    def slow_compiler(self):
        """A compiler with a child, as g++ has cc1plus, that takes a minute."""
        path = pathlib.Path(self.folder.name, "slow")
        path.write_text(f"#!/bin/sh\nsleep 60 &\necho $$ $! >> '{self.pids}'\nwait\n")
        path.chmod(0o755)
        work = pathlib.Path(self.folder.name, "tmp")
        work.mkdir()
        return {"NABLA_CXX": str(path), "NABLA_CACHE": self.folder.name + "/cache", "TMPDIR": str(work)}

    def begin(self):
        process = start("import nabla as nb\nprint('ready')\nnb.jit(lambda x: x * 3 + 1)(nb.ones((5,)))\n",
                        **self.slow_compiler())
        self.assertTrue(eventually(lambda: self.pids.exists() and self.pids.read_text().endswith("\n")))
        return process, [int(p) for p in self.pids.read_text().split()]

    def nothing_is_left(self, pids):
        self.assertTrue(eventually(lambda: not any(map(is_alive, pids))), [p for p in pids if is_alive(p)])
        self.assertTrue(eventually(lambda: not os.listdir(self.folder.name + "/tmp")))

    def test_ctrl_c_is_a_keyboard_interrupt(self):
        process, pids = self.begin()
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", text)
        self.assertNotIn("E0502", text)
        self.nothing_is_left(pids)

    def test_a_killed_process_leaves_no_compiler(self):
        process, pids = self.begin()
        process.kill()
        process.communicate()
        self.nothing_is_left(pids)

    def test_threads_that_compile_at_once_leave_signals_as_they_were(self):
        code = """
            import threading
            import nabla as nb
            print('ready')
            def caught():
                line = next(l for l in open('/proc/self/status') if l.startswith('SigCgt'))
                return int(line.split()[1], 16) & (1 << 14 | 1 << 0)  # SIGTERM, SIGHUP
            assert caught() == 0
            for i in range(6):
                f = [lambda x, c=c: x * c + nb.sin(x) for c in (i + 0.25, i + 0.5, i + 0.75)]
                threads = [threading.Thread(target=lambda g=g: nb.jit(g)(nb.ones((7,))).tolist()) for g in f]
                for t in threads: t.start()
                for t in threads: t.join()
                assert caught() == 0, caught()
            """
        process = start(code, NABLA_CACHE=self.folder.name + "/cache")
        _, text = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, text)


if __name__ == "__main__":
    unittest.main()
