#!/usr/bin/env python3
"""Freeze everything that a user of loadbook sees as text files, and compare two such freezes.

    freeze.py TREE OUT --inputs DIR [--corpus DIR]    write what the code in TREE prints and makes into the folder OUT
    freeze.py --compare A B                           list every difference; exit code 1 if there is one

The freeze depends on the command line (the entry point in pyproject.toml), on the notebooks of TREE and on files only;
no module of loadbook is named here. Its inputs are files made once by `freeze_inputs.py`. Run it with the Python of an
environment in which the dependencies of loadbook are installed; the code is taken from TREE/lib.

OUT holds
- help/: --help of the program and of every command;
- parse/: `loadbook parse --json` of every capture among the fixtures and, with --corpus, of every case there;
- studies/, refused/, hosts/, batch-files/: plans, dry runs and error messages of study, hosts and batch files;
- errors/: what the command line answers to mistakes;
- pages/PROJECT/: every block of every page of a project, as text and as HTML, with every figure (hash and its text);
- commands/PROJECT.txt: what history, gate, claims, export and others print about the project;
- recorded/, example/, replay/, import/, batch/, rude-*/: whole runs through the command line, with their tables;
- golden_sentences.txt.

Times of the freeze, run ids made during it, durations and absolute paths are replaced by <...>; all else is verbatim.
A figure appears as `[svg HASH: its text]`; with --keep-svg the pictures are in OUT/svg.
"""

from __future__ import annotations

import argparse
import base64
import csv
import difflib
import fnmatch
import functools
import gc
import hashlib
import html
import importlib
import io
import json
import os
import pkgutil
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SLOW = ("recorded-report", "batch", "studies", "mock-[!u]*", "gate-*", "stop-*", "compare-[!u]*", "sizes-[!t]*",
        "factorial-[!p]*", "noise-*", "balancers-*", "backends-*", "rude-[!l]*", "errors")  # fmt: skip
DIFF_LINES = 40  # of one file, in the output of --compare
SVG_URI = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
GLYPHS = re.compile(r'(?:<use[^>]*href="#(?:f|DejaVuSans)(?:-Bold|-Oblique)?-[0-9a-f]+"[^>]*/>\s*)+')
GLYPH = re.compile(r'href="#[\w-]*-([0-9a-f]+)"')
COPIED = ("lib", "notebooks", "studies", "pyproject.toml")  # of TREE, into the work folder
ENVIRONMENT = {
    "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
    "JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": "", "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}  # fmt: skip


class Result(NamedTuple):
    """What one command did: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


class Freeze:
    """One freeze under way: where the code, the inputs, the work folder and the output are."""

    def __init__(self, work: Path, out: Path, inputs: Path, corpus: Path | None, keep_svg: bool) -> None:
        self.work, self.out, self.inputs, self.corpus, self.keep_svg = work, out, inputs, corpus, keep_svg
        self.tree, self.began = work / "tree", time.time()
        self.main: Callable[[], Any] = lambda: None
        self.new_runs: dict[str, str] = {}  # run ids of this freeze, in the order in which they were seen
        self.known_runs = {
            path.name for pattern in ("projects/*/data/*/*", "projects/*/data/*/*/*", "fixtures/recorded-run/*",
                                      "projects/*/recording/*", "example/*")
            for path in inputs.glob(pattern)
        }  # fmt: skip

    # output

    def write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.plain(text).rstrip("\n") + "\n", encoding="utf-8", errors="backslashreplace")

    def plain(self, text: str) -> str:
        """Replace what differs from one freeze to the next: paths, times, run ids, durations."""
        text = text.replace(str(self.work), "<work>").replace(str(self.inputs), "<inputs>")
        text = text.replace(sys.prefix, "<prefix>")
        if self.corpus:
            text = text.replace(str(self.corpus), "<corpus>")
        for pattern, replaced in RULES:
            text = pattern.sub(replaced, text)
        text = re.sub(r"(?<!\d)(20\d{6}-\d{6})(-\d)?(?![\d])", self._run, text)
        text = re.sub(r"(?<![\d.])(\d{10})(\.\d+)?(?!\d)", self._epoch, text)
        return re.sub(r"20\d\d-\d\d-\d\d[ T\u00a0]\d\d:\d\d(:\d\d(\.\d+)?)?", self._moment, text)

    def _run(self, found: re.Match[str]) -> str:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.began - 1))
        if found[1] in self.known_runs or found[1] < stamp:
            return found[0]
        return self.new_runs.setdefault(found[0], f"<run {len(self.new_runs) + 1}>")

    def _epoch(self, found: re.Match[str]) -> str:
        return "<epoch>" if self.began - 1 <= int(found[1]) <= time.time() + 1 else found[0]

    def _moment(self, found: re.Match[str]) -> str:
        stamp = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.began - 1))
        return found[0] if re.sub("[T\u00a0]", " ", found[0])[:16] < stamp else "<time>"

    # commands

    def call(self, *words: object, home: Path | None = None, cwd: Path | None = None, fork: bool = True) -> Result:
        """Call the command line in a copy of this process, or (fork=False, faster) in this process itself."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = self._forked(words, home, cwd, out, err) if fork else self._here(words, home, cwd, out, err)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "backslashreplace"))
        return Result(code, texts[0], PROGRESS.sub("", texts[1]))

    def _forked(self, words: Sequence[object], home: Path | None, cwd: Path | None, out: Any, err: Any) -> int:
        child = os.fork()
        if not child:
            code = 70
            with suppress(BaseException):
                code = self._here(words, home, cwd, out, err)
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _here(self, words: Sequence[object], home: Path | None, cwd: Path | None, out: Any, err: Any) -> int:
        before = [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv = ["loadbook", *map(str, words)]
        os.environ["LOADBOOK_HOME"] = str(home or self.tree)
        os.chdir(cwd or home or self.tree)
        code = 0
        try:
            self.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        except BaseException:
            # where in the code it happened is no behaviour; that it happened is
            sys.stderr.write("TRACEBACK " + traceback.format_exc(limit=0))
            code = 71
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(before[0], 1)
            os.dup2(before[1], 2)
            for one in before:
                os.close(one)
        return code

    def show(self, *words: object, **options: Any) -> str:
        """Return one command and its answer as text."""
        return shown(words, self.call(*words, **options))

    # figures and pages

    def unpack(self, text: str) -> str:
        """Return HTML one element a line, each picture as its hash and the words in it."""
        text = SVG_URI.sub(lambda found: self.svg(base64.b64decode(found[1]).decode()), text)
        return re.sub(r">\s*<", ">\n<", text)

    def svg(self, picture: str) -> str:
        digest = hashlib.sha256(picture.encode()).hexdigest()[:16]
        if self.keep_svg:
            path = self.out / "svg" / f"{digest}.svg"
            path.parent.mkdir(exist_ok=True)
            path.write_text(picture)
        known = letters()
        words = ["".join(known.get(int(g, 16), "?") for g in GLYPH.findall(run[0])) for run in GLYPHS.finditer(picture)]
        words += [html.unescape(re.sub("<[^>]+>", "", t)) for t in re.findall(r"<text[^>]*>.*?</text>", picture, re.S)]
        return f"[svg {digest}, {len(picture)} bytes: " + " | ".join(words) + "]"

    def page(self, home: Path, notebook: str, parameters: dict[str, Any], name: str) -> None:
        """Execute a notebook of the tree in a copy of this process; write what each cell shows."""
        child = os.fork()
        if not child:
            code = 0
            try:
                self._page(home, notebook, parameters, name)
            except BaseException:
                self.write(name, "TRACEBACK\n" + traceback.format_exc(limit=0))
                traceback.print_exc()
                code = 1
            os._exit(code)
        os.waitpid(child, 0)

    def _page(self, home: Path, notebook: str, parameters: dict[str, Any], name: str) -> None:
        import nbformat

        book = nbformat.read(self.tree / "notebooks" / f"{notebook}.ipynb", as_version=4)
        cells = []
        for cell in book.cells:
            if cell.cell_type == "markdown":
                cells.append(("markdown", cell.source))
                continue
            cells.append(("code", cell.source))
            if "parameters" in cell.metadata.get("tags", []):
                given = "\n".join(f"{key} = {value!r}" for key, value in parameters.items())
                cells.append(("code", f"# Parameters\n{given}\n"))
        self.write(name, self.cells(home, cells))

    def cells(self, home: Path, cells: Iterable[tuple[str, str]]) -> str:
        """Execute cells in IPython, as a kernel would, and return what they show."""
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output

        (home / "notebooks").mkdir(exist_ok=True)
        os.environ["LOADBOOK_HOME"] = str(home)
        os.chdir(home / "notebooks")
        shell = InteractiveShell.instance()
        errors: list[str] = []
        results: list[dict[str, Any]] = []

        def display(value: Any) -> None:
            if value is not None:
                results.append(shell.display_formatter.format(value)[0])

        shell.display_trap.hook = display
        shell._showtraceback = lambda kind, value, lines: errors.append(_error_text(kind, value))
        parts = []
        for number, (kind, source) in enumerate(cells):
            if kind == "markdown":
                parts.append(f"==== {number} markdown\n{source}")
                continue
            parts.append(f"==== {number} code")
            errors.clear()
            results.clear()
            with capture_output() as seen:
                shell.run_cell(source, store_history=True)
            parts += [
                f"-- {label}\n{text}" for label, text in (("stdout", seen.stdout), ("stderr", seen.stderr)) if text
            ]
            parts += [self.bundle(data) for data in (*(output.data for output in seen.outputs), *results)]
            parts += [f"-- error\n{text}" for text in errors]
        return "\n".join(parts)

    def bundle(self, data: dict[str, Any]) -> str:
        parts = []
        for kind, value in sorted(data.items()):
            text = value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True, default=str)
            parts.append(f"-- {kind}\n" + (self.unpack(text) if kind in ("text/html", "image/svg+xml") else text))
        return "\n".join(parts)

    # projects

    def project(self, name: str, source: Path | None = None) -> Path:
        """Copy a project of the inputs into the work folder, with the notebooks of the tree."""
        home = self.work / name
        shutil.copytree(source or self.inputs / "projects" / name, home, symlinks=True)
        shutil.copytree(self.tree / "notebooks", home / "notebooks", dirs_exist_ok=True)
        return home

    def tables(self, home: Path, into: str, without: Sequence[str] = (), new_run: bool = False) -> None:
        """Write each processed table of a project: hash of its rows, of each column, and its first rows.

        The hash of the file is left out where the run was made now (`new_run`): its id is in the tables.
        """
        import pyarrow.parquet as pq

        for path in sorted((home / "data/processed").rglob("*.parquet")):
            if any(part.startswith(".") for part in path.relative_to(home).parts):  # caches
                continue
            data = pq.read_table(path)
            names = [name for name in data.schema.names if name not in without]
            lines = [f"rows {data.num_rows}"]
            if not new_run:
                lines.append(f"file sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
            columns = {name: [self.plain(repr(v)) for v in data[name].to_pylist()] for name in names}
            for field in data.schema:
                if field.name in columns:
                    digest = hashlib.sha256("\n".join(columns[field.name]).encode()).hexdigest()[:16]
                    lines.append(f"column {field.name} {field.type} {'' if field.nullable else 'not '}null {digest}")
            rows = list(zip(*columns.values(), strict=True))
            lines.append("sha256 " + hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest())
            shown_rows = rows if path.stem in ("trials", "problems") else rows[:12]
            buffer = io.StringIO()
            csv.writer(buffer).writerows([names, *shown_rows])
            run = path.parent.relative_to(home / "data/processed")
            self.write(
                f"{into}/tables/{self.plain(str(run))}/{path.stem}.txt", "\n".join(lines) + "\n" + buffer.getvalue()
            )

    def raw(self, home: Path, into: str) -> None:
        """Write the list of raw files of a project and its JSON and TOML files."""
        names = []
        for path in sorted((home / "data/raw").rglob("*")):
            name = self.plain(str(path.relative_to(home / "data/raw")))
            if path.is_file():
                names.append(name)
                if path.suffix in (".json", ".jsonl", ".toml") and path.stat().st_size < 300_000:
                    text = path.read_text(encoding="utf-8")
                    for pattern, replaced in OWN_NUMBERS:
                        text = pattern.sub(replaced, text)
                    self.write(f"{into}/raw/{name}", text)
                if path.name.startswith("answers-") and (
                    path.parent.parent.name != "trials" or path.parent.name < "t0005"
                ):
                    self.write(f"{into}/raw/{name}.txt", _questions(path))
        self.write(f"{into}/raw/files.txt", "\n".join(sorted(names)))

    def reports(self, home: Path, into: str, numbers: bool = True) -> None:
        """Write every page and JSON file below reports/; without `numbers` those of pages, which a replay measures."""
        for path in sorted((home / "reports").rglob("*")):
            name = self.plain(str(path.relative_to(home / "reports")))
            if path.suffix == ".html":
                text = self.unpack(path.read_text(encoding="utf-8"))
                if not numbers and path.name != "index.html":
                    text = re.sub(r"\d[\d.,]*(\s(ms|µs|s|min)\b)?", "#", re.sub(r"\[svg [^\]]*\]", "[svg]", text))
                self.write(f"{into}/reports/{name}.txt", text)
            elif path.suffix in (".json", ".jsonl", ".xml"):
                self.write(f"{into}/reports/{name}.txt", path.read_text(encoding="utf-8"))
            elif path.is_file() and not path.name.startswith("."):
                self.write(f"{into}/reports/{name}.is-there", "")


@functools.cache
def letters() -> dict[int, str]:
    """Return the letter of each glyph of the font of the figures, as SVG files of matplotlib number them."""
    from matplotlib import font_manager, ft2font

    font = ft2font.FT2Font(font_manager.findfont("DejaVu Sans"))
    return {glyph: chr(letter) for letter, glyph in reversed(list(font.get_charmap().items()))}


# progress of long commands: which of these lines appear depends on the time that they take
PROGRESS = re.compile(r"^\d[\d,]* of \d[\d,]* [a-z ]+(?:read|packed|taken in|hashed|checked)\n", re.M)
# numbers that a replayed or imported run measures anew, in its raw files
OWN_NUMBERS = [
    (re.compile(r'("(?:duration_s|reset|configure|start|ask_before|load|ask_after|collect|stop|warm_up|settle|waited_s)": )[\d.]+'),
     r"\1<number>"),
    (re.compile(r'("(?:run\.json|answers-\w+|hosts\.toml|facts/[^"]*)": )"[0-9a-f]{16,64}"'), r'\1"<hash>"'),
    (re.compile(r'("(?:sha256|sum)": )"[0-9a-f]{16,64}"(?=[,}]|$)'), r'\1"<hash>"'),
]  # fmt: skip
# what varies from run to run, wherever it stands
DURATION = "[\\d.,]+[ \u00a0](?:ms|s|min|h)(?:[ \u00a0]\\d+[ \u00a0](?:s|min))?"
RULES = [
    (re.compile(r"^ *\d+\.\d s  ", re.M), "<clock>  "),
    (re.compile(r"(run\.zip\t\d+ files, )\S+ \S+"), r"\1<size>"),
    (
        re.compile(rf"(over after |, done, |done, |batch: |(?:done|failed) +\d+ of \d+ +){DURATION}"),
        r"\1<duration>",
    ),
    (re.compile(rf", {DURATION} left"), ", <duration> left"),
    (re.compile(r'(?<=data-name="Took">)[^<]+'), "<duration>"),
    (re.compile(r"\b(pid|process) \d+"), r"\1 <pid>"),
    (re.compile(r"\w+\.(\w+\(\) missing)"), r"\1"),  # names of classes are no behaviour
    (re.compile(r'("(?:took_s|ran_s|reported_s|pid|peak_b|elapsed_s|tick)": )[\d.e+-]+'), r"\1<number>"),
]


def _error_text(kind: type[BaseException], value: BaseException) -> str:
    render = getattr(value, "_render_traceback_", None)
    return "\n".join(render()) if render else f"{kind.__name__}: {value}"


def shown(words: Sequence[object], result: Result) -> str:
    """Return a command and its result as text."""
    text = f"$ loadbook {' '.join(map(str, words))}\nexit code {result.code}\n"
    for label, part in (("stdout", result.out), ("stderr", result.err)):
        if part:
            text += f"-- {label}\n{part}" + ("" if part.endswith("\n") else "\n[no newline]\n")
    return text


def _questions(path: Path) -> str:
    """Return what a host was asked, by the transcript of a run, without numbers that are new each time."""
    asked = [json.dumps(json.loads(line).get("asked"), ensure_ascii=False) for line in path.read_text().splitlines()]
    return "\n".join(re.sub(r"\d{3,}(\.\d+)?|[0-9a-f]{16,}", "#", line) for line in asked)


def _with_fixed_times(path: Path) -> None:
    """Write fixed times into a table of trials."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = pq.read_table(path)
    for name in ("started", "duration_s"):
        index = data.schema.get_field_index(name)
        values = pa.array([1.7e9 + 3 * k if name == "started" else 2.0 for k in range(data.num_rows)], pa.float64())
        data = data.set_column(index, data.schema.field(index), values)
    pq.write_table(data, path)


# tasks: each is a function of the freeze and runs in a process of its own


def help_texts(freeze: Freeze) -> None:
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        words = waiting.pop()
        result = freeze.call(*words, "--help", fork=False)
        freeze.write(f"help/{'-'.join(('loadbook', *words))}.txt", shown((*words, "--help"), result))
        commands = result.out.partition("Commands:\n")[2]
        waiting += [(*words, name) for name in re.findall(r"^  (\w[\w-]*)", commands, re.M)]
    freeze.write("help/version.txt", freeze.show("--version", fork=False) + freeze.show(fork=False))


def parse_fixtures(freeze: Freeze) -> None:
    folder = freeze.work / "captures"
    for tool in ("ab", "h2load", "httperf", "jmeter", "weighttp", "wrk", "wrk2"):
        texts = []
        for stdout in sorted((freeze.inputs / "fixtures" / tool).glob("*.stdout")):
            stem = stdout.name.removesuffix(".stdout")
            case = folder / tool / stem
            case.mkdir(parents=True)
            for path in stdout.parent.glob(f"{stem}.*"):
                if path.suffix != ".json":
                    shutil.copy(path, case / path.name.removeprefix(f"{stem}."))
            texts.append(freeze.show("parse", tool, case, "--json", fork=False))
            if len(texts) % 5 == 1:
                texts.append(freeze.show("parse", tool, case, fork=False))
                texts.append(freeze.show("parse", tool, case / "stdout", fork=False))
        freeze.write(f"parse/fixtures/{tool}.txt", "\n".join(texts))


def parse_corpus(freeze: Freeze) -> None:
    if not freeze.corpus:
        return
    known = re.findall(r"[\w]+", freeze.call("parse", "nope", freeze.corpus, fork=False).err.partition("tools: ")[2])
    for family in sorted(path for path in freeze.corpus.iterdir() if path.is_dir()):
        names = [name for name in known if re.fullmatch(rf"{name}\d*(deb)?", family.name)]
        tool = max(names, key=len, default=family.name)
        cases = sorted(path for path in family.iterdir() if (path / "stdout").is_file())
        if not names:
            cases = cases[:1]
        texts = [freeze.show("parse", tool, case, "--json", fork=False) for case in cases]
        freeze.write(f"parse/corpus/{family.name}.txt", "\n".join(texts))


def tree_studies(freeze: Freeze) -> None:
    hosts = freeze.inputs / "hosts"
    freeze.write("studies/list.txt", "\n".join(
        freeze.show("studies", *more, fork=False) for more in ((), ("--json",), ("--packages",), ("aa", "noise"))
    ))  # fmt: skip
    for number, path in enumerate(sorted((freeze.tree / "studies").glob("*.toml"))):
        name = path.stem
        texts = [freeze.show("plan", name, fork=False), freeze.show("plan", f"{name}-smoke", "--json", fork=False)]
        texts.append(freeze.show("plan", name, "--detect", "3%", "--blocks", "4", fork=False))
        if number % 2:
            texts.append(freeze.show("run", f"{name}-smoke", "--dry-run", "--hosts", hosts / "balanced.toml"))
        if number % 4 == 0:
            texts.append(freeze.show("run", name, "--dry-run", "--verbose", "--hosts", hosts / "fine.toml"))
        freeze.write(f"studies/{name}.txt", "\n".join(texts))


def refused_studies(freeze: Freeze) -> None:
    studies = freeze.inputs / "studies"
    texts = []
    for path in sorted(studies.glob("*.toml")):
        head = "".join(line for line in path.read_text().splitlines(True) if line.startswith("#"))
        texts.append(head + freeze.show("plan", path, fork=False))
    freeze.write("refused/studies.txt", "\n".join(texts))
    for kind in sorted((studies / "hostile").iterdir()):
        texts = [freeze.show("plan", path, fork=False) for path in sorted(kind.rglob("*.toml"))]
        freeze.write(f"refused/hostile/{kind.name}.txt", "\n".join(texts))


def hosts_files(freeze: Freeze) -> None:
    for path in sorted((freeze.inputs / "hosts").rglob("*.toml")):
        texts = [freeze.show("hosts", "list", "--hosts", path, fork=False)]
        if path.parent.name == "hosts":
            texts.append(freeze.show("run", "aa", "--dry-run", "--hosts", path))
        freeze.write(f"hosts/{path.parent.name}-{path.stem}.txt", "\n".join(texts))
    for path in sorted((freeze.inputs / "batches").glob("*.toml")):
        texts = [freeze.show("batch", path, "--dry-run"), freeze.show("batch", path, "--dry-run", "--json")]
        freeze.write(f"batch-files/{path.stem}.txt", "\n".join(texts))


def errors(freeze: Freeze) -> None:
    home = freeze.project("errors", freeze.inputs / "projects/recorded")
    shutil.copytree(freeze.tree / "studies", home / "studies", dirs_exist_ok=True)
    shutil.copy(freeze.inputs / "projects/recorded/studies/nginx-directives.toml", home / "studies")
    lines = """rnu x; run; new mine; report nosuch; report aa; report aa-smoke; run recorded --hosts hosts.toml
        new mine --service nginx --try open_file_cache=on; new mine --service ngnix; new --service nginx --try gzip=on
        new made --service nginx --set access_log=unbuffered --try access_log=buffered --control set_steps=100
        plan made; plan made --json; new made --service nginx --try gzip=on; plan nosuch; plan recorded --subset none
        plan recorded --blocks 0; plan recorded --detect much; plan recorded --subset all; ingest nosuch; ingest
        ingest recorded --run 20200101-000000; verify nosuch; verify; verify recorded; parse; parse nope .; parse wrk none
        history nosuch; history recorded; gate nosuch; gate recorded; claims nosuch; claims; claims --json; doctor
        export nosuch; export recorded --as csv --out -; compare none.csv --baseline x; batch none.toml; hosts
        hosts list; hosts list --hosts none.toml; hosts trust; hosts trust --hosts none.toml nohost; lab; lab status
        report recorded --run none; report recorded --against previous; report recorded --against none
        report recorded -p nosuch=1; report recorded -p level=high; report recorded -p level; report --all recorded
        report --jobs 3; report a b --run x; traces recorded; traces recorded none --host web; restore; restore --help
        import; import none; import . --conditions none.csv; run recorded --dry-run; run nosuch --dry-run
        run recorded --resume none; run recorded --blocks none; studies nosuch; studies aa nosuch --json
        --nosuch; run recorded --nosuch; history --json; gate recorded --run none; compare"""
    commands = [command.strip() for line in lines.splitlines() for command in line.split(";") if command.strip()]
    freeze.write("errors/mistakes.txt", "\n".join(freeze.show(*words.split(), home=home) for words in commands))
    bad = freeze.work / "bad.csv"
    texts = []
    for content in (
        "",
        "treatment,block,ok_per_s\n",
        "treatment,block,ok_per_s\na,1,x\nb,1,2\n",
        "treatment,block\na,1\n",
    ):
        bad.write_text(content)
        texts.append(freeze.show("compare", bad, "--baseline", "a", fork=False))
    freeze.write("errors/compare.txt", "\n".join(texts))
    # records that are damaged
    run = next((home / "data/raw/recorded").iterdir())
    texts = [freeze.show("ingest", "recorded", home=home)]
    trial = sorted((run / "trials").iterdir())[2]
    output = next(trial.glob("stdout*"))
    output.write_bytes(output.read_bytes() + b" ")
    texts += [freeze.show(*words, home=home) for words in (("verify", "recorded"), ("ingest", "recorded"))]
    for victim in (run / "plan.json", run / "run.json", run / "ledger.jsonl", trial / "trial.json"):
        whole = victim.read_bytes()
        for content in (whole[: len(whole) // 2], b"{}", b""):
            victim.write_bytes(content)
            for words in (
                ("verify", "recorded"),
                ("ingest", "recorded"),
                ("export", "recorded", "--as", "csv", "--out", "-"),
            ):
                result = freeze.call(*words, home=home)
                texts.append(
                    f"# {victim.name} has {len(content)} bytes\n" + shown(words, result._replace(out=result.out[:3000]))
                )
        victim.write_bytes(whole)
    freeze.write("errors/damaged.txt", "\n".join(texts))


def project_task(name: str) -> Callable[[Freeze], None]:
    def task(freeze: Freeze) -> None:
        home = freeze.project(name)
        pages = json.loads((home / "freeze.json").read_text())
        study = pages[0]["parameters"]["study"]
        if name in ("recorded", "example") or name.startswith("rude-"):
            texts = [
                freeze.show(*words, home=home) for words in (("ingest", study), ("ingest", study), ("verify", study))
            ]
            freeze.write(f"{name}/ingest.txt", "\n".join(texts))
            freeze.tables(home, name)
        for number, page in enumerate(pages):
            freeze.page(home, page["notebook"], page["parameters"], f"pages/{name}/{number}-{page['notebook']}.txt")
        commands: list[tuple[object, ...]] = [
            ("history", study), ("gate", study, "--junit", "junit.xml", "--json", "gate.json"), ("claims", study),
        ]  # fmt: skip
        if name in (
            "mock-usual",
            "recorded",
            "history",
            "claims",
            "hostile",
            "compare-upgraded",
            "balancers",
            "backends",
        ):
            commands += [("history", study, "--json"), ("history", study, "--by-name", "--alarm"),
                         ("claims", study, "--json"), ("export", study, "--as", "benchstat", "--out", "-"),
                         ("export", study, "--as", "csv", "--out", "-"), ("verify", study)]  # fmt: skip
        texts = []
        for words in commands:
            result = freeze.call(*words, home=home, fork=False)
            if len(result.out) > 100_000:
                digest = hashlib.sha256(result.out.encode()).hexdigest()
                result = result._replace(
                    out=f"{result.out[:2000]}\n... {len(result.out)} characters, sha256 {digest}\n"
                )
            texts.append(shown(words, result))
        texts += [
            f"# {path.name}\n{path.read_text()}" for path in (home / "junit.xml", home / "gate.json") if path.exists()
        ]
        freeze.write(f"commands/{name}.txt", "\n".join(texts))

    return task


def explore(freeze: Freeze) -> None:
    """Call every verb of a loaded run and of its plots that works without arguments, in cells."""
    home = freeze.project("explore", freeze.inputs / "projects/recorded")
    freeze.call("ingest", "recorded", home=home)
    first = "import loadbook as lb\ndata = lb.load('recorded')\ndata"
    probe = (
        "import json\nprint(json.dumps([[n for n in dir(o) if not n.startswith('_')] for o in (lb, data, data.plot)]))"
    )
    child_file = freeze.work / "explore-names.json"
    child = os.fork()
    if not child:
        with suppress(BaseException):
            child_file.write_text(freeze.cells(home, [("code", first), ("code", probe)]))
        os._exit(0)
    os.waitpid(child, 0)
    names = json.loads(re.findall(r"^\[\[.*\]\]$", child_file.read_text(), re.M)[-1])
    cells = [("code", first)]
    for prefix, known in zip(("data", "data.plot"), names[1:], strict=True):
        for name in known:
            cells.append(("markdown", f"{prefix}.{name}"))
            cells.append(("code", f"x = {prefix}.{name}\nx if not callable(x) else None"))
            cells.append(("code", "x() if callable(x) else None"))
    cells += [("code", text) for text in (
        "lb.studies()", "lb.plan('recorded')", "lb.state('recorded')", "lb.history('recorded')", "lb.nosuch",
        "data.compare('latency p99')", "data.why('t0001')", "data.raw('t0001')", "data.plot.beside('t0001')",
        "data.without('t0001').compare()", "data.compare('nosuch')", "data.why('t9999')", "lb.load('nosuch')",
        "data.wide('ok_per_s', 'latency p99')", "data.slowest()", "lb.load('recorded', 'none')", "lb.run('recorded')",
    )]  # fmt: skip
    freeze.write("pages/explore.txt", freeze.cells(home, cells))


def recorded_report(freeze: Freeze) -> None:
    """The recorded run through `loadbook report` (papermill and kernels), `traces`, `export` and `import`."""
    home = freeze.project("report", freeze.inputs / "projects/recorded")
    traces = freeze.inputs / "fixtures/traces"
    texts = [freeze.show("report", "recorded", home=home)]
    freeze.reports(home, "recorded")
    archive = home / "run.zip"
    texts.append(freeze.show("export", "recorded", "--out", archive, home=home))
    files = sorted(path for path in home.iterdir() if path.is_file() and path.name not in ("freeze.json",))
    for path in files:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as opened:
                texts.append("\n".join(sorted(opened.namelist())))
    other = freeze.project("imported-archive", freeze.inputs / "projects/replay")
    texts += [freeze.show("import", path, home=other) for path in files[:1]]
    freeze.tables(other, "recorded/imported-archive")
    texts += [freeze.show("traces", "recorded", path, "--host", "web", home=home)
              for path in sorted(traces.glob("*")) if path.is_file() and not re.search("all.csv|epoch|plain|cpu-busy|local.csv", path.name)]  # fmt: skip
    freeze.write("recorded/report.txt", "\n".join(texts))
    freeze.tables(home, "recorded/with-traces")
    freeze.page(home, "resource_traces", {"study": "recorded"}, "pages/recorded-with-traces/resource_traces.txt")


def replay(freeze: Freeze) -> None:
    """A run of the recorded study whose hosts are played back, then ingested and reported."""
    home = freeze.project("replay")
    hosts = next((home / "recording").glob("*/hosts.toml"))
    doctor = freeze.show("doctor", "recorded", "--hosts", hosts, home=home)
    dry = [
        freeze.show("run", "recorded", "--dry-run", *more, "--hosts", hosts, home=home) for more in ((), ("--verbose",))
    ]
    run = freeze.show("run", "recorded", "--new", "--hosts", hosts, home=home)
    more = [freeze.show(*words, home=home) for words in (
        ("ingest", "recorded"), ("verify", "recorded"), ("run", "recorded", "--hosts", hosts, "--blocks", "9", "--new"),
        ("run", "recorded", "--hosts", hosts, "--resume", "none"), ("history", "recorded"),
    )]  # fmt: skip
    freeze.write("replay/dry-run.txt", "\n".join(dry))
    freeze.write("replay/run.txt", "\n".join([doctor, run, *more]))
    freeze.tables(home, "replay", ("run", "started", "duration_s"), new_run=True)
    freeze.raw(home, "replay")
    # the time that a replay takes is its own: a fixed one takes its place before a page is made
    run_json = next(home.glob("data/raw/recorded/*/run.json"))
    record = json.loads(run_json.read_text())
    run_json.write_text(json.dumps(record | {"started": 1.7e9, "ended": 1.7e9 + 100}))
    _with_fixed_times(next(home.glob("data/processed/recorded/*/trials.parquet")))
    freeze.page(home, "config_effects", {"study": "recorded"}, "pages/replay/config_effects.txt")


def imports(freeze: Freeze) -> None:
    """Results made by hand: imported, reported, and refused with mistakes."""
    home = freeze.project("import", freeze.inputs / "projects/replay")
    source = freeze.inputs / "fixtures/by-hand"
    words = ("import", source, "--conditions", source / "conditions.csv", "--baseline", "plain")
    texts = [freeze.show(*words, *more, home=home) for more in (
        ("--dry-run",), (), (), ("--metric", "speed"), ("--margin", "2"), ("--question", "?"), ("--tool", "siege"),
        ("--baseline", "none"), ("--aa", "plain"), ("--metric", "latency_intended"), ("--tool", "ab"),
        ("--study", "other", "--metric", "latency", "--margin", "0.05", "--question", "Which is quicker?"),
    )]  # fmt: skip
    freeze.write("import/by-hand.txt", "\n".join(texts))
    freeze.tables(home, "import", new_run=True)
    freeze.raw(home, "import")
    for notebook in ("config_effects", "run_quality"):
        freeze.page(home, notebook, {"study": "by-hand"}, f"pages/import/{notebook}.txt")
    texts = []
    for conditions in sorted((freeze.inputs / "imports").glob("*.csv")):
        result = freeze.call("import", source, "--conditions", conditions, "--baseline", "plain", "--dry-run",
                             home=home, fork=False)  # fmt: skip
        texts.append(shown((conditions.name,), result))
    freeze.write("import/refused.txt", "\n".join(texts))


def batch(freeze: Freeze) -> None:
    """A batch of replayed runs, with its table, summary page and index."""
    home = freeze.project("batch", freeze.inputs / "projects/replay")
    included = home / "studies/nginx-directives.toml"
    included.write_text(included.read_text().replace('["config_effects", "run_quality"]', '["run_quality"]'))
    hosts = next((home / "recording").glob("*/hosts.toml"))
    text = f'[[entry]]\nhosts = "{hosts}"\nstudy = "recorded"\nblocks = 1\n'
    (home / "nightly.toml").write_text(
        text + text.replace('"recorded"', '"nginx-directives-smoke"').replace("blocks = 1\n", "")
    )
    texts = [
        freeze.show("batch", home / "nightly.toml", *more, home=home) for more in (("--dry-run",), ("--jobs", "1"))
    ]
    freeze.write("batch/batch.txt", "\n".join(texts))
    freeze.reports(home, "batch", numbers=False)


def compare_tables(freeze: Freeze) -> None:
    texts = []
    for path in sorted((freeze.inputs / "fixtures/benchstat").glob("*.csv")):
        with path.open() as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), list(reader.fieldnames or ())
        metric = next((c for c in columns if c not in ("treatment", "block", "trial", "slot")), "ok_per_s")
        baseline = rows[0].get("treatment", "")
        for more in ((), ("--json",), ("--margin", "0.02"), ("--margin", "0.02", "--no-loss"), ("--lower-is-better",)):
            words = ("compare", path, "--baseline", baseline, "--metric", metric, *more)
            texts.append(freeze.show(*words, fork=False))
    freeze.write("commands/compare-tables.txt", "\n".join(texts))


def golden(freeze: Freeze) -> None:
    for path in (freeze.tree / "golden").glob("*.txt"):
        freeze.write(path.name, path.read_text(encoding="utf-8"))


# running it


def tasks_of(inputs: Path) -> dict[str, Callable[[Freeze], None]]:
    """Return every task by name, the slowest first."""
    tasks: dict[str, Callable[[Freeze], None]] = {
        "recorded-report": recorded_report, "batch": batch, "errors": errors, "replay": replay, "explore": explore,
        "studies": tree_studies, "imports": imports, "corpus": parse_corpus,
    }  # fmt: skip
    named = sorted(path.name for path in (inputs / "projects").iterdir() if path.name != "replay")
    tasks |= {name: project_task(name) for name in named}
    return tasks | {"refused": refused_studies, "hosts": hosts_files, "fixtures": parse_fixtures, "help": help_texts,
                    "compare-tables": compare_tables, "golden": golden}  # fmt: skip


def preload(tree: Path) -> Callable[[], Any]:
    """Import every module of loadbook and what it uses lazily, so that copies of this process begin at once."""
    package = importlib.import_module("loadbook")
    assert tree in Path(str(package.__file__)).parents, package.__file__
    for module in pkgutil.walk_packages(package.__path__, "loadbook.", onerror=lambda name: None):
        with suppress(Exception):
            importlib.import_module(module.name)
    for name in ("matplotlib.backends.backend_svg", "matplotlib.backends.backend_agg", "scipy.stats", "pandas",
                 "pyarrow.parquet", "nbformat", "nbconvert", "papermill", "rich.table", "rich.console", "bs4",
                 "statsmodels.api", "IPython.core.interactiveshell", "IPython.utils.capture"):  # fmt: skip
        with suppress(Exception):
            importlib.import_module(name)
    warm_up()
    gc.freeze()
    scripts = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]
    module_name, _, function = scripts["loadbook"].partition(":")
    main: Callable[[], Any] = getattr(importlib.import_module(module_name), function)
    return main


def warm_up() -> None:
    """Start IPython and draw one figure, so that no copy of this process has to."""
    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib.figure import Figure
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    InteractiveShell.instance(config=config)
    figure = Figure()
    figure.add_subplot().text(0, 0, "".join(map(chr, range(32, 127))))
    figure.savefig(io.BytesIO(), format="svg")


def run_tasks(freeze: Freeze, tasks: dict[str, Callable[[Freeze], None]], jobs: int) -> int:
    """Run the tasks, each in a process of its own; return how many failed."""
    waiting, running, failed, total = list(tasks.items()), {}, 0, 0.0
    while waiting or running:
        while waiting and len(running) < jobs:
            name, task = waiting.pop(0)
            child = os.fork()
            if not child:
                code = 0
                try:
                    task(freeze)
                except BaseException:
                    traceback.print_exc()
                    code = 1
                sys.stderr.flush()
                os._exit(code)
            running[child] = (name, time.monotonic())
        child, status, used = os.wait3(0)
        if child in running:
            name, since = running.pop(child)
            failed += status != 0
            total += used.ru_utime + used.ru_stime
            took, cpu = time.monotonic() - since, used.ru_utime + used.ru_stime
            if status or took > 5:
                print(
                    f"{'FAILED ' if status else ''}{name}: {took:.0f} s, CPU {cpu:.0f} s", file=sys.stderr, flush=True
                )
    print(f"CPU {total:.0f} s", file=sys.stderr)
    return failed


def freeze_tree(options: argparse.Namespace) -> int:
    """Copy the tree to a work folder, start again in a plain environment, and write the freeze."""
    tree, out = options.folders[0].resolve(), options.folders[1].resolve()
    if not os.environ.get("FREEZE_WORK"):
        work = Path(tempfile.mkdtemp(prefix="freeze-"))
        for name in COPIED:
            copy = shutil.copytree if (tree / name).is_dir() else shutil.copyfile
            copy(tree / name, work / "tree" / name) if (work / "tree").exists() else (
                (work / "tree").mkdir(), copy(tree / name, work / "tree" / name))  # fmt: skip
        (work / "tree/golden").mkdir()
        for path in (tree / "tests").rglob("golden_sentences.txt"):
            shutil.copy(path, work / "tree/golden")
        (work / "home").mkdir()
        own = ENVIRONMENT | {"FREEZE_WORK": str(work), "HOME": str(work / "home"), "PYTHONPATH": str(work / "tree/lib"),
                             "IPYTHONDIR": str(work / "home/ipython")}  # fmt: skip
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR")}
        cache = os.environ.get("MPLCONFIGDIR") or str(Path.home() / ".cache/matplotlib")
        kept |= {"MPLCONFIGDIR": cache} if Path(cache).is_dir() else {}
        words = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        child = os.spawnve(os.P_NOWAIT, sys.executable, words, kept | own)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:
            os.kill(child, signal.SIGTERM)
            return 130
        finally:
            if not options.keep_work:
                shutil.rmtree(work, ignore_errors=True)
    work = Path(os.environ["FREEZE_WORK"])
    began = time.monotonic()
    tasks = tasks_of(options.inputs)
    if options.quick:
        tasks = {name: task for name, task in tasks.items() if not any(fnmatch.fnmatch(name, p) for p in SLOW)}
    if options.only:
        tasks = {name: task for name, task in tasks.items() if any(fnmatch.fnmatch(name, p) for p in options.only)}
    else:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    corpus = options.corpus.resolve() if options.corpus else None
    freeze = Freeze(work, out, options.inputs.resolve(), corpus, options.keep_svg)
    freeze.main = preload(work / "tree")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    failed = run_tasks(freeze, tasks, options.jobs)
    files = [path for path in out.rglob("*") if path.is_file()]
    print(f"{len(tasks)} tasks ({failed} failed), {len(files)} files, {sum(p.stat().st_size for p in files) / 1e6:.1f} MB, "
          f"{time.monotonic() - began:.0f} s", file=sys.stderr)  # fmt: skip
    return 1 if failed else 0


def compare(a: Path, b: Path, limit: int, common: bool) -> int:
    """Print every difference of two freezes, file by file; return 1 if there is one."""
    names = sorted({str(p.relative_to(root)) for root in (a, b) for p in root.rglob("*") if p.is_file()})
    names = [name for name in names if not name.startswith("svg/")]
    different = 0
    for name in names:
        one, other = a / name, b / name
        if common and not (one.exists() and other.exists()):
            continue
        if not one.exists() or not other.exists():
            print(f"only in {a if one.exists() else b}: {name}")
            different += 1
            continue
        if one.read_bytes() == other.read_bytes():
            continue
        different += 1
        texts = [path.read_text(encoding="utf-8").splitlines() for path in (one, other)]
        lines = list(difflib.unified_diff(*texts, f"a/{name}", f"b/{name}", n=1, lineterm=""))
        changed = sum(line[:1] in "+-" for line in lines[2:])
        print(f"\n{name}: {changed} changed lines")
        for line in lines[:limit] if limit else lines:
            print("  " + (line if len(line) < 400 else line[:400] + " ..."))
        if limit and len(lines) > limit:
            print(f"  ... and {len(lines) - limit} more lines")
    print(f"{different} of {len(names)} files differ")
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs=2, type=Path, metavar="FOLDER", help="TREE OUT, or with --compare A B")
    parser.add_argument("--compare", action="store_true", help="compare two freezes")
    parser.add_argument("--inputs", type=Path, help="folder that freeze_inputs.py made")
    parser.add_argument("--corpus", type=Path, help="folder of captures, TOOL/CASE/stdout")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="only these tasks; OUT is not emptied first")
    parser.add_argument(
        "--lines", type=int, default=DIFF_LINES, help="diff lines per file, 0: all (default: %(default)s)"
    )
    parser.add_argument("--common", action="store_true", help="with --compare: only files that are in both")
    parser.add_argument("--quick", action="store_true", help="leave out the slow tasks (compare with --common then)")
    parser.add_argument("--keep-svg", action="store_true", help="also write every picture to OUT/svg")
    parser.add_argument("--keep-work", action="store_true", help="do not remove the work folder")
    options = parser.parse_args()
    if options.compare:
        return compare(*options.folders, options.lines, options.common)
    if not options.inputs:
        parser.error("--inputs is needed (scripts/freeze_inputs.py makes them)")
    return freeze_tree(options)


if __name__ == "__main__":
    sys.exit(main())
