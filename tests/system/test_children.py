"""A child's last words and its end are noticed, and none outlives its owner."""

from __future__ import annotations

import subprocess

from flashsac.system.children import PythonChild


def test_exit_code_and_last_line():
    with PythonChild("-c", "import sys; print('a\\nb', file=sys.stderr); sys.exit(3)") as child:
        assert child.wait() == 3
        assert child.last_line() == "b"
        assert not child.timed_out
    with PythonChild("-c", "") as child:
        assert (child.wait(), child.last_line()) == (0, "")


def test_a_child_that_takes_too_long_is_killed():
    with PythonChild("-c", "import time; print('ready', flush=True); time.sleep(600)", stdout=subprocess.PIPE) as child:
        assert child.process.stdout.readline() == b"ready\n"
        child.kill_after(0.1)
        assert child.wait() == -9
        assert child.timed_out


def test_no_child_outlives_the_block():
    with PythonChild("-c", "import time; time.sleep(600)", stdin=subprocess.PIPE) as child:
        child.process.stdin.write(b"never read")
    assert child.process.returncode == -9
