#!/bin/sh
# paramiko 5.1.0: SSHConfig takes `Include` for an option of the host and reads no other file.
#
# Behaviour: OpenSSH reads the files that `Include` names at that place of ssh_config(5). paramiko's parser keeps the
# word as an option called `include`, without a warning, and `lookup` returns it beside the others. A host that is
# described in an included file is therefore unknown: no port, no user, no key, no jump host. Fabric, which uses this
# parser, connects to port 22 of the name instead.
# Seen: "with Include: port none, include = ['EXTRA']; the same lines in the file itself: port 2222".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check paramiko==5.1.0
printf 'Host web1\n  Port 2222\n' >"$folder/extra"
"$folder/venv/bin/python" - "$folder/extra" <<'PY'
import sys
from pathlib import Path

import paramiko

extra = sys.argv[1]
included = paramiko.SSHConfig.from_text(f"Include {extra}\n").lookup("web1")
written = paramiko.SSHConfig.from_text(Path(extra).read_text()).lookup("web1")
word = [str(value).replace(extra, "EXTRA") for value in [included.get("include", "none")]]
print(f"with Include: port {included.get('port', 'none')}, include = {word}; "
      f"the same lines in the file itself: port {written.get('port', 'none')}")
sys.exit(not ("port" not in included and "include" in included and written["port"] == "2222"))
PY
