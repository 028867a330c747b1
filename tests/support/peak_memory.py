"""Peak memory of a child process alone; `ru_maxrss` would include the memory of its parent at the fork."""

PEAK = r"""
import re
from pathlib import Path

def peak_bytes():
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
"""

# calls the command line with its own arguments, and prints that memory last
MEASURED = f"""{PEAK}
from loadbook.cli import main
try:
    main()
finally:
    print(peak_bytes())
"""
