"""JMeter result files in XML, as batches of rows, read element by element in constant memory.

An element with the attributes `t` and `lb` under testResults, or under such an element, is a sample
(SampleResultConverter of apache/jmeter). A sample within a sample is a sub-result, but within a transaction it is a
request of its own. A document type or an entity raises ParseError: JMeter writes none, and they can make a parser read
other files or exhaust memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import NamedTuple, NoReturn
from xml.parsers import expat

import pyarrow as pa

from loadbook.core.errors import ParseError
from loadbook.request_logs.jtl_rows import (
    EPOCH_MS,
    NOT_BEGUN,
    TOOL,
    TRANSACTION,
    WHOLE_NUMBER,
    BatchBuilder,
    JtlLayout,
)
from loadbook.request_logs.stream import Damage, LogRowKind, RequestBatch

CHUNK_BYTES = 1 << 20
BATCH_ROWS = 50_000
DOCUMENT_MARKS = (b"<?xml", b"<testResults")
LONGEST_TOKEN = 4096  # bytes that the parser may keep of a chunk: the beginning of another document is shorter
# XML attribute -> the CSV column with the same meaning (rs was the response code in very old files)
ATTRIBUTE_COLUMNS = {
    "ts": "timeStamp", "t": "elapsed", "lb": "label", "rc": "responseCode", "rm": "responseMessage", "s": "success",
    "by": "bytes", "lt": "Latency", "ct": "Connect", "sc": "SampleCount", "ec": "ErrorCount", "tn": "threadName",
}  # fmt: skip
# quick checks of attributes; only if one fails, `JtlLayout.field_error` makes the message
_CHECKS = {
    "ts": EPOCH_MS.regex, "s": re.compile("true|false", re.ASCII | re.IGNORECASE),
    **dict.fromkeys(("t", "by", "lt", "ct", "sc", "ec"), WHOLE_NUMBER),
}  # fmt: skip
# responseData may hold characters that XML forbids; each is one byte in UTF-8 and becomes "?"
_FORBIDDEN = bytes(0x3F if code < 32 and code not in (9, 10, 13) else code for code in range(256))
_REFERENCE = re.compile(rb"&#(?:0*([0-9]{1,2})|x0*([01]?[0-9A-Fa-f]));")

_SAYS_UTF_16 = re.compile(rb"\s*<\?xml[^>]{1,50}encoding=[\"']UTF-16", re.IGNORECASE)


class XmlSample(NamedTuple):
    """One sample: its attributes, its kind, and the line of its start tag."""

    attributes: dict[str, str]
    kind: LogRowKind
    line: int


class XmlSampleCollector:
    """Handler of expat that collects the samples of a file: of one document, or of several that were joined."""

    def __init__(self, file: str, encoding: str | None = None) -> None:
        self.file, self.encoding = file, encoding
        self.rows: list[XmlSample] = []
        self.open: list[XmlSample | None] = []  # one per open element; None if it is not a sample
        self.ended = False
        self.joined: list[Damage] = []
        self.lines_before = 0
        self.parser = self._new_parser()

    def _new_parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate(self.encoding)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._forbidden
        parser.EntityDeclHandler = self._forbidden
        self.parsed, self.kept = 0, b""
        return parser

    @property
    def line(self) -> int:
        """Current line of the file, from 1."""
        return self.lines_before + self.parser.CurrentLineNumber

    def parse(self, data: bytes) -> None:
        """Parse the next bytes of the file; another document after the end of one is the damage "header"."""
        rest: bytes | None = data
        while rest is not None:
            rest = self._parse_document(rest)

    def _parse_document(self, data: bytes) -> bytes | None:
        """Parse bytes of one document; return those of the next one if it begins in them, else None."""
        self.kept, self.parsed = (self.kept + data)[-LONGEST_TOKEN - len(data) :], self.parsed + len(data)
        try:
            self.parser.Parse(data, False)
        except expat.ExpatError as error:
            start = self.parser.ErrorByteIndex - self.parsed + len(self.kept)
            rest = self.kept[start:] if start >= 0 else b""
            is_document = rest and any(mark.startswith(rest[: len(mark)]) for mark in DOCUMENT_MARKS)
            if not self.ended or not is_document:
                self.fail(self.lines_before + error.lineno, f"not XML here: {expat.ErrorString(error.code)}")
            self.lines_before += error.lineno - 1
            text = "another document begins: files or runs were joined"
            self.joined.append(Damage("header", self.lines_before + 1, text))
            self.ended, self.parser = False, self._new_parser()
            return rest
        return None

    def fail(self, line: int, message: str) -> NoReturn:
        """Raise ParseError with the file and this line."""
        raise ParseError(TOOL, self.file, line, message)

    def _forbidden(self, *_: object) -> None:
        self.fail(self.line, "a document type or entity, which no JTL has, is not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.open:
            if name != "testResults":
                self.fail(self.line, f"the root element of a JTL is testResults, not {name}")
            self.open.append(None)
            return
        parent = self.open[-1]
        sample = "t" in attributes and "lb" in attributes and (parent is not None or len(self.open) == 1)
        if not sample and len(self.open) == 1:
            self.fail(self.line, f"element {name} has no time t and label lb: not a sample")
        kind = LogRowKind.REQUEST
        if parent is not None and parent.kind != LogRowKind.TRANSACTION:
            kind = LogRowKind.PART
        elif attributes.get("rm", "").startswith(TRANSACTION):
            kind = LogRowKind.TRANSACTION
        self.open.append(XmlSample(attributes, kind, self.line) if sample else None)

    def _end(self, _name: str) -> None:
        sample = self.open.pop()
        if sample:
            self.rows.append(sample)
        self.ended = not self.open


def read_jtl_xml(
    stream: BufferedReader, file: str, properties: Mapping[str, str] | None = None
) -> Iterator[RequestBatch]:
    """Yield the samples of a file in the order of their end tags; ParseError if it is not a JTL or a sample is invalid.

    A file without its end tag (a killed JVM) gives its complete samples, and the damage "torn".
    """
    was_utf_16 = _SAYS_UTF_16.match(stream.peek(100))  # its declaration is still that of the file
    samples = XmlSampleCollector(file, "UTF-8" if was_utf_16 else None)
    ends = (properties or {}).get("sampleresult.timestamp.start", "true") == "false"
    builder: BatchBuilder | None = None
    for data in _clean_chunks(stream):
        try:
            samples.parse(data)
        except (LookupError, ValueError) as error:  # an encoding that expat does not support
            samples.fail(1, f"not the encoding of a JTL, which is UTF-8: {error}")
        while len(samples.rows) >= BATCH_ROWS:
            rows, samples.rows = samples.rows[:BATCH_ROWS], samples.rows[BATCH_ROWS:]
            builder = builder or _batch_builder(rows[0].attributes, file, ends)
            yield _build_batch(rows, builder)
    builder = builder or _batch_builder(samples.rows[0].attributes if samples.rows else ATTRIBUTE_COLUMNS, file, ends)
    batch = _build_batch(samples.rows, builder)
    batch.damage += [*samples.joined, *_missing_end(samples)]
    yield batch


def _clean_chunks(stream: BufferedReader) -> Iterator[bytes]:
    """Yield the stream with "?" for characters that XML forbids; no reference (``&#0;``) is split between chunks."""
    rest = b""
    while data := stream.read(CHUNK_BYTES):
        data = rest + data.translate(_FORBIDDEN)
        cut = data.rfind(b"&", -16)
        rest = data[cut:] if cut >= 0 and b";" not in data[cut:] else b""
        yield _REFERENCE.sub(_replace_forbidden, data[: len(data) - len(rest)])
    if rest:
        yield rest


def _replace_forbidden(match: re.Match[bytes]) -> bytes:
    code = int(match[1]) if match[1] else int(match[2], 16)
    return match[0] if code >= 32 or code in (9, 10, 13) else b"?"


def _missing_end(samples: XmlSampleCollector) -> list[Damage]:
    """Return the damage "torn" if closing tags are missing at the end of the file, else an empty list."""
    if samples.ended:
        return []
    if not samples.open:
        samples.fail(samples.line, "the file ends before <testResults>")
    line = next((sample.line for sample in samples.open if sample), samples.line)
    within = "within a sample, which is not counted" if any(samples.open) else "without </testResults>"
    return [Damage("torn", line, f"the file ends {within}")]


def _batch_builder(attributes: Mapping[str, str], file: str, ends: bool) -> BatchBuilder:
    """Return the batch builder for a file whose first sample has these attributes."""
    names = tuple(column for short, column in ATTRIBUTE_COLUMNS.items() if short in attributes)
    return BatchBuilder(JtlLayout(names, "", EPOCH_MS if "ts" in attributes else None, None, ends), file)


def _build_batch(rows: list[XmlSample], builder: BatchBuilder) -> RequestBatch:
    attributes = [short for short, column in ATTRIBUTE_COLUMNS.items() if column in builder.layout.columns]
    if rows and not {"s", "rc"} & set(attributes):
        raise ParseError(TOOL, builder.file, rows[0].line, "neither s nor rc was saved: nothing says what failed")
    rows, damage = _begun(rows, builder)
    for sample in rows:
        for short in attributes:
            text = sample.attributes.get(short)
            if text is None:
                fault = f"this sample has no {short}, which the first one has"
                raise ParseError(TOOL, builder.file, sample.line, fault)
            is_suspect = short in _CHECKS and not _CHECKS[short].fullmatch(text)
            if is_suspect and (reason := builder.layout.field_error(ATTRIBUTE_COLUMNS[short], short, text)):
                raise ParseError(TOOL, builder.file, sample.line, reason)
    columns = {ATTRIBUTE_COLUMNS[short]: [sample.attributes[short] for sample in rows] for short in attributes}
    table = pa.table({name: builder.layout.column_array(name, values) for name, values in columns.items()})
    batch = builder.build(table, [sample.line for sample in rows], [sample.kind for sample in rows])
    batch.damage = damage
    return batch


def _begun(rows: list[XmlSample], builder: BatchBuilder) -> tuple[list[XmlSample], list[Damage]]:
    """Return the samples without those that were stopped before they began, and the damage of these."""
    begun, damage = [], []
    for sample in rows:
        is_zero = sample.attributes.get("ts") == "0" and sample.kind == LogRowKind.REQUEST
        columns = {ATTRIBUTE_COLUMNS.get(short, short): text for short, text in sample.attributes.items()}
        if is_zero and builder.layout.has_not_begun(columns):
            damage.append(Damage("not_begun", sample.line, NOT_BEGUN))
        else:
            begun.append(sample)
    return begun, damage
