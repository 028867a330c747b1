"""A load that one generator puts on several targets by turns: its files, and the part of each target in it.

The generator finds its targets in the file `arms`, with a line "ARM URL" each, and their turns in the file `schedule`,
with a line "ARM REQUESTS" each. It leaves the results of each target in the folder `armN`, and beside them the file
`part`: lines of a name and a whole number, which `Part` describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.errors import ParseError
from loadbook.modes.shared.spec import LEAST_LATENESS, SCHEDULE_FILE
from loadbook.tools.base import MIN_ACHIEVED_SHARE, ToolOutput

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

ARMS_FILE, PART_FILE = "arms", "part"


class Part(NamedTuple):
    """Part of a generator's requests that one target gets.

    Attributes
    ----------
    arm : number of the target.
    requests : how many of them the schedule has.
    least_lateness_us : of all requests of the generator, the least time from the place in an even schedule that begins
        at 0 to the start, in us since 1970; it marks the start of the schedule. None if it is not known.
    lost : how many requests of the generator have no result, whatever their target.
    due_us, late_us : place of the last request of the generator in its schedule, and how late it was.
    """

    arm: int
    requests: int
    least_lateness_us: int | None = None
    lost: int = 0
    due_us: int = 0
    late_us: int = 0

    @property
    def stretch(self) -> float:
        """Return how many times as long as planned the load took, as its generator was late; at least 1."""
        return 1 + max(0, self.late_us) / self.due_us if self.due_us else 1.0


def read_part(tool: str, data: bytes) -> Part:
    """Return the part that a file describes; ParseError, which names the tool, for anything else."""
    try:
        pairs = dict(line.split() for line in data.decode().splitlines())
        return Part(**{name: int(value) for name, value in pairs.items()})
    except (TypeError, ValueError) as error:
        raise ParseError(tool, PART_FILE, 0, f"not a part of a shared load: {error}") from None


def part_of(tool: str, output: ToolOutput) -> Part | None:
    """Return the part of a target in a shared load; None if the load was that of one target."""
    data = output.files.get(PART_FILE)
    return None if data is None else read_part(tool, data)


def part_properties(part: Part | None) -> dict[str, str]:
    """Return the properties of a log of one target, for its reader: the start of the schedule of all targets."""
    is_known = part is not None and part.least_lateness_us is not None
    return {LEAST_LATENESS: str(part.least_lateness_us)} if part and is_known else {}


def part_doubts(tool: str, part: Part, figures: Summary, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about one target of a shared load, as (name, sentence)."""
    attempts = figures.total().attempts
    if part.lost:
        yield "lost", f"{part.lost} requests of all treatments have no row: {tool} was killed, or rows were lost"
    if attempts < MIN_ACHIEVED_SHARE * part.requests - 1:
        text = f"{attempts} requests were started, of {part.requests} that were due"
        yield "offered_shortfall", f"{text}: the load was not open"
    if output.exit_code:
        yield "exit_code", f"{tool} ended with exit code {output.exit_code}"


def shared_files(urls: Mapping[int, str], turns: Iterable[tuple[int, int]]) -> dict[str, bytes]:
    """Return the files `arms` and `schedule`: `urls` leads from arms to URLs, `turns` has (arm, requests) in order."""
    arms = "".join(f"{arm} {url}\n" for arm, url in urls.items())
    return {ARMS_FILE: arms.encode(), SCHEDULE_FILE: "".join(f"{arm} {n}\n" for arm, n in turns).encode()}
