#!/bin/sh
# nbformat 5.11.1: its import builds the grammar of RFC 3987 if a JSON schema extra is installed.
#
# Behaviour: `import nbformat` imports jsonschema 4.26.0, whose format checkers import rfc3987_syntax 1.1.0 wherever
# that is installed; jupyter-events requires it, so every JupyterLab has it. rfc3987_syntax compiles its Lark grammars
# when it is imported. That was 2.9 of the 3.2 CPU seconds of `import nbformat`, in every kernel and worker process
# that imports it, although no notebook is checked for an IRI.
# Seen: "without: False 0.23; with: True 2.24 (lark is imported, CPU seconds)".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip="$folder/venv/bin/pip install -q --disable-pip-version-check"
look='import sys, time; import nbformat; print("lark" in sys.modules, time.process_time())'
$pip nbformat==5.11.1 jsonschema==4.26.0
without=$("$folder/venv/bin/python" -c "$look")
$pip rfc3987-syntax==1.1.0
with=$("$folder/venv/bin/python" -c "$look")
echo "without: $without; with: $with (lark is imported, CPU seconds)"
[ "${without% *}" = False ] && [ "${with% *}" = True ]
