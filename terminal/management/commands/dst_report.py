"""`dst_report`: which schedules the next clock changes touch."""

from terminal.dst_report import DstReport
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Tell which schedules the next clock changes touch, and how."
    verbs = [DstReport]
