#!/bin/sh
# polars 2.1.0: a CSV row with too few fields is accepted, also with missing_columns="raise".
#
# Behaviour: `scan_csv` and `read_csv` compare the schema with the first row only. `missing_columns="raise"` and
# `extra_columns="raise"` refuse a first row with fewer or more fields, and any later row with more. A later row with
# fewer fields gets null, or an empty text if `empty_string_is_null=False`. So a request log in which a full disk cut
# rows is read without a word, and the cut row cannot be told from one whose last texts are empty. DuckDB 2.0.1 and
# pyarrow 26.0.1 refuse the same bytes and name the row.
# Seen: "polars [(1, 'a', 'x'), (2, 'b', ''), (3, 'c', 'z')]; pyarrow refused; duckdb refused".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1
printf '1,a,x\n2,b\n3,c,z\n' >"$folder/rows.csv"
cat >"$folder/read.py" <<'PYTHON'
import sys

import duckdb
import polars as pl
import pyarrow as pa
from pyarrow import csv

path, names = sys.argv[1], ["number", "name", "last"]
schema = {"number": pl.Int64, "name": pl.String, "last": pl.String}
strict = {"missing_columns": "raise", "extra_columns": "raise", "empty_string_is_null": False}
print("polars", pl.scan_csv(path, has_header=False, schema=schema, **strict).collect().rows(), end="; ")
try:
    csv.read_csv(path, csv.ReadOptions(column_names=names))
    print("pyarrow read", end="; ")
except pa.ArrowInvalid:
    print("pyarrow refused", end="; ")
columns = "{number: 'BIGINT', name: 'VARCHAR', last: 'VARCHAR'}"
try:
    duckdb.sql(f"select * from read_csv('{path}', header=false, auto_detect=false, columns={columns})").fetchall()
    print("duckdb read")
except duckdb.Error:
    print("duckdb refused")
PYTHON
seen=$("$folder/venv/bin/python" "$folder/read.py" "$folder/rows.csv")
echo "$seen"
[ "$seen" = "polars [(1, 'a', 'x'), (2, 'b', ''), (3, 'c', 'z')]; pyarrow refused; duckdb refused" ]
