"""Runners as child processes that answer words over pipes and stand still between their turns."""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

RUNNER_PRIORITY, OWN_PRIORITY = 50, 51  # of the real-time class; a wrap's own fillers are to be below
ANSWER_SECONDS = 900  # torch.compile's first run


class RunnerError(RuntimeError):
    """A runner ended or did not answer; the message says which."""


class Machine:
    """How the machine is kept for the bench.

    wrap: a command prefix that gives its command the machine for some time, "" for none; while a window is open, a process
    that does nothing runs under it. realtime: the runners are in the real-time class while they run.
    """

    def __init__(self, wrap="", realtime=False, seconds=40):
        self.wrap, self.realtime, self.seconds = wrap.split(), realtime, seconds
        self.opened = None
        self.holder = None

    def conditions(self):
        return {"realtime": self.realtime, "wrapped": bool(self.wrap), "idle_runners": "stopped"}

    def open(self):
        """The window is ours on return."""
        if self.wrap:
            self.holder = subprocess.Popen([*self.wrap, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if self.realtime:
                prioritise(os.getpid(), OWN_PRIORITY)
            self.holder.stdin.write(b"\n")
            self.holder.stdin.flush()
            if not self.holder.stdout.readline():
                raise RunnerError(f"{' '.join(self.wrap)}: ended at once")
        elif self.realtime:
            prioritise(os.getpid(), OWN_PRIORITY)
        self.opened = time.monotonic()

    def close(self):
        if self.opened is None:
            return
        self.opened = None
        if self.realtime:
            prioritise(os.getpid(), 0)
        if self.holder:
            self.holder.stdin.close()
            self.holder.wait()
            self.holder = None

    @contextlib.contextmanager
    def window(self):
        self.open()
        try:
            yield
        finally:
            self.close()

    def refresh(self, needed):
        """Opens a new window when fewer than `needed` seconds of this one are left."""
        if self.wrap and time.monotonic() - self.opened + needed > self.seconds:
            self.close()
            self.open()


def prioritise(pid, priority):
    """All threads of a process to the real-time class, or with 0 out of it; threads made later follow their makers."""
    policy = os.SCHED_FIFO if priority else os.SCHED_OTHER
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


def _die_with_parent():
    """For the child: a stopped runner must not outlive a bench that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Runner:
    """One child; `hello` is its first answer. It runs only inside ask()."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=_die_with_parent)
        self.buffer = b""
        self.hello = self._answer()
        self.stop()

    def prioritise(self):
        prioritise(self.process.pid, RUNNER_PRIORITY)

    def _answer(self):
        end = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                self.process.kill()
                raise RunnerError(f"{self.name}: {'ended' if ready else 'no answer'}, exit code {self.process.wait()}")
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, *words):
        """The answer to the last of the words, which are given one after the other."""
        self.process.send_signal(signal.SIGCONT)
        for word in words:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
            answer = self._answer()
        self.stop()
        return answer

    def memory_mb(self):
        """The most resident memory so far."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            (line,) = [line for line in f if line.startswith("VmHWM")]
        return round(int(line.split()[1]) / 1024, 1)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def timed(command, env=None):
    """Milliseconds from start to exit, and the most resident memory in MB, of a command that must succeed."""
    helper = [sys.executable, "-S", "-E", str(pathlib.Path(__file__).with_name("timed.py"))]
    done = subprocess.run([*helper, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        raise RunnerError(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
    ms, kib = map(float, done.stdout.split())
    return ms, kib / 1024
