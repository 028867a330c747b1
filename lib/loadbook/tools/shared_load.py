"""A load that one generator puts on several targets by turns: its files, and the part of each target in it.

The generator finds its targets in the file `arms`, with a line "ARM URL" each, and their turns in the file `schedule`,
with a line "ARM REQUESTS" each. It leaves the results of each target in the folder `armN`, and beside them the file
`part`: lines of a name and a whole number, which `Part` describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from loadbook.core.errors import ParseError
from loadbook.modes.shared.spec import SCHEDULE_FILE

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
    """

    arm: int
    requests: int
    least_lateness_us: int | None = None
    lost: int = 0


def read_part(tool: str, data: bytes) -> Part:
    """Return the part that a file describes; ParseError, which names the tool, for anything else."""
    try:
        pairs = dict(line.split() for line in data.decode().splitlines())
        return Part(**{name: int(value) for name, value in pairs.items()})
    except (TypeError, ValueError) as error:
        raise ParseError(tool, PART_FILE, 0, f"not a part of a shared load: {error}") from None


def shared_files(urls: Mapping[int, str], turns: Iterable[tuple[int, int]]) -> dict[str, bytes]:
    """Return the files `arms` and `schedule`: `urls` leads from arms to URLs, `turns` has (arm, requests) in order."""
    arms = "".join(f"{arm} {url}\n" for arm, url in urls.items())
    return {ARMS_FILE: arms.encode(), SCHEDULE_FILE: "".join(f"{arm} {n}\n" for arm, n in turns).encode()}
