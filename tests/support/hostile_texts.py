"""Hostile texts (docs/reliability.md, cases 43 to 48) in input from people, servers and tools, for injection tests.

If loadbook executed them, a script would set the page's title to PWN, and a command would create a file PWN.
"""

from __future__ import annotations

import json
from pathlib import Path

CANARY = "PWN"
BEACON = "http://127.0.0.1:9/pwn"  # nobody listens there; whoever asks would be seen
SHELL = (
    "$(touch PWN)", "`touch PWN`", "; reboot", "; touch PWN #", "| touch PWN", "&& touch PWN",
    "-oProxyCommand=touch PWN", "-rf", "--", "a\nb", "\r\n", "*", "~root", "!!", "it's", '"', "\\", "FOO=bar",
    "", " ", "${IFS}",
)  # fmt: skip
PATHS = ("../../x", "/etc/passwd", "..", ".", "a/b", "a\0b", "x" * 300, ".hidden", "..\\..\\x")
HTML = (
    "<script>document.title='PWN'</script>",
    '"><img src=x onerror="document.title=\'PWN\'">',
    "]]><script>document.title='PWN'</script>",
    f'<!--><meta http-equiv="refresh" content="0;url={BEACON}">-->',
    f"</style><style>@import '{BEACON}';</style>",
    f'<img src="{BEACON}">',
    f'<link rel="stylesheet" href="{BEACON}">',
    "javascript:document.title='PWN'",
    "</title><svg onload=document.title='PWN'>",
    "</textarea></pre></details><base href=//127.0.0.1:9/>",
    "&lt;script&gt;",
    "[x](javascript:document.title='PWN')",
)
TERMINAL = (
    "\x1b[31mred\x1b[0m", "\x1b[2J\x1b[H", "\x1b]8;;http://127.0.0.1:9/\x1b\\link\x1b]8;;\x1b\\", "\x9b31m",
    "\x1b]0;title\x07", "gone\rback", "\b\b", "\u202egnp", "\u2066x\u2069", "zero\u200bwidth", "\ud800", "\x7f", "\x00",
    "\x1b[1;1H[1/1] everything is fine",
)  # fmt: skip
TEMPLATES = (
    "{host.__class__}", "{0}", "%s %n", "{{7*7}}", "{{ ''.__class__ }}", "{% for i in range(9) %}x{% endfor %}",
    "$x_1$", "$\\frac{1}{0", "$$", "80;} server {", '"""', "'''", "\\N{DASH}", "__import__('os').system('touch PWN')",
    "a;b",
)  # fmt: skip
SHEETS = ("=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-1+2", "=HYPERLINK(1)")
WORDS = (
    "[sudo] password: ",
    "Password:",
    "NA",
    "null",
    "nan",
    "1e400",
    "-0",
    "None",
    "class",
    "print",
    "ａ",
    "é\u0301",
)
CORPUS = (*SHELL, *PATHS, *HTML, *TERMINAL, *TEMPLATES, *SHEETS, *WORDS)
# what a UTF-8 file can hold
WRITABLE = tuple(text for text in CORPUS if "\ud800" not in text)


def silent(text: str) -> bool:
    """Return whether a text has no terminal control characters and no characters that change the writing direction."""
    acting = {*range(32), *range(127, 160), 0x202E, 0x2066, 0x200B, 0xD800} - {ord("\n"), ord("\t")}
    return not acting.intersection(map(ord, text))


def no_canary(*folders: Path) -> bool:
    """Return whether no hostile command was executed: no file PWN exists below these folders."""
    return not any(path.name == CANARY for folder in folders for path in folder.rglob(CANARY))


def inline_toml(value: object) -> str:
    """Return a value as inline TOML, made from JSON, whose escapes are the same except for character 127."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline_toml(key)} = {inline_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline_toml, value)) + "]"
    return json.dumps(value).replace("\x7f", "\\u007f")
