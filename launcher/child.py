"""Become a program that ends when its supervisor does: `python -m launcher.child SUPERVISOR_PID PROGRAM ARG …`.

A supervisor that is killed cannot stop its programs. On Linux the kernel does it for us; elsewhere they live on, which
is harmless: further beats and workers never double a fire.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    supervisor, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(supervisor):  # it died before we asked
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
