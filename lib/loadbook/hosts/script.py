"""Shell scripts that are sent to hosts, each with its purpose and its answer on a host without problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

DRY_RUN_PID = 999999999  # process id of every job in a dry run; above every id that Linux assigns
ScriptText = str | Callable[[Sequence[str]], str]


class Script(str):
    """A POSIX sh script, which a dry run lists with its purpose and answers in place of a host.

    Parameters
    ----------
    text : the script.
    purpose : what it is for, or a function of its arguments that returns that.
    answer : what it prints on a host without problems, or a function of its arguments that returns that.
    """

    purpose: ScriptText
    answer: ScriptText
    __slots__ = ("answer", "purpose")

    def __new__(cls, text: str, purpose: ScriptText = "", answer: ScriptText = "") -> Script:
        """Return the script."""
        script = super().__new__(cls, text)
        script.purpose, script.answer = purpose, answer
        return script

    def used_for(self, purpose: str) -> Script:
        """Return the same script with another purpose."""
        return Script(self, purpose, self.answer)

    def purpose_with(self, args: Sequence[str]) -> str:
        """Return the purpose of a call with these arguments."""
        return self.purpose if isinstance(self.purpose, str) else self.purpose(args)

    def answer_to(self, args: Sequence[str]) -> str:
        """Return the answer to a call with these arguments on a host without problems."""
        return self.answer if isinstance(self.answer, str) else self.answer(args)
