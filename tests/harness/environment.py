"""How tests start programs: one object that every process of the runner
holds a copy of."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import report


class Environment:
    def __init__(self, root, build):
        self.root = os.path.abspath(root)
        self.build = os.path.abspath(build)
        self.binary = os.path.join(self.build, "tdslc")
        self.tests = os.path.join(self.root, "tests")
        self.stdlib = os.path.join(self.root, "stdlib")
        self.quick = not self.slow()
        self.full = False       # tests that take their time do
        self.draw = None        # which half runs of what is drawn; None: all
        self.features = None

    def slow(self):
        """Whether the build carries sanitizers: longer limits then."""
        try:
            with open(os.path.join(self.build, "CMakeCache.txt")) as f:
                for line in f:
                    if line.startswith("TDSL_SANITIZE:"):
                        return line.strip().split("=", 1)[1] != ""
        except OSError:
            pass
        return False

    def variables(self):
        keep = {k: v for k, v in os.environ.items()
                if not k.startswith("TDSL_")}
        keep.update(TDSLC=self.binary, TDSL_TEST_BUILD=self.build,
                    # what a test compiles is made now, and in no home
                    TDSL_CACHE="off", NO_COLOR="1", LC_ALL="C.UTF-8",
                    PATH=self.build + os.pathsep + os.environ["PATH"],
                    # one leak report is enough, and JIT code has no frames
                    ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1",
                    UBSAN_OPTIONS="print_stacktrace=1",
                    PYTHONDONTWRITEBYTECODE="1")
        if self.full:
            keep["TDSL_TEST_FULL"] = "1"
        if self.draw is not None:
            keep["TDSL_TEST_DRAW"] = str(self.draw)
        return keep

    def start(self, command, cwd=None, timeout=300, shell=False, extra=None):
        """(exit status, stdout and stderr together). A program that was
        killed by a signal or ran out of time has a negative status."""
        if not self.quick:
            timeout *= 10
        env = self.variables()
        env.update(extra or {})
        child = subprocess.Popen(
            command, cwd=cwd, shell=shell, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            out, _ = child.communicate(timeout=timeout)
            code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            out += b"\nno end after %d s\n" % timeout
            code = -signal.SIGKILL
        return code, out.decode("utf-8", "replace")

    def tdslc(self, args, cwd=None, timeout=300, extra=None):
        return self.start([self.binary] + args, cwd or self.root, timeout,
                          extra=extra)

    def shell(self, command, cwd):
        return self.start(command, cwd, shell=True)

    @contextlib.contextmanager
    def scratch(self):
        folder = tempfile.mkdtemp(prefix="tdtest-")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def draws(self, name):
        """Whether the case of this name is in today's half."""
        return report.is_drawn(name, self.draw)

    def has(self, feature):
        if self.features is None:
            self.features = set()
            if os.path.exists(self.binary):
                self.features.add("tdslc")
            try:
                with open(os.path.join(self.build, "CMakeCache.txt")) as f:
                    on = "TDSL_WITH_LLVM:BOOL=ON" in f.read()
                    self.features.add("llvm" if on else "nollvm")
            except OSError:
                pass
            if not self.slow():
                self.features.add("nosan")
            import nvrtc
            if nvrtc.library().handle is not None:
                self.features.add("nvrtc")
            if sys.platform == "linux":
                self.features.add("linux")
        return feature in self.features
