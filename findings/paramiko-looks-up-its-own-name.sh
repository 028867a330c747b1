#!/bin/sh
# paramiko 5.1.0: each IdentityFile of an SSH configuration costs a lookup of this machine's own name.
#
# Behaviour: SSHConfig.lookup puts the full name of the local machine (socket.getfqdn, which may ask name servers) in the
# place of the token %l. The class that holds the name is called LazyFqdn, and is to look it up on request only. But
# lookup converts it to text for every value that may have tokens, also where the value has none, so once for each
# IdentityFile. Nothing is kept between values or calls. Where reverse lookups time out, each connection of Fabric to such
# a host begins that much later.
# Seen: "lookups: 0 without IdentityFile, 2 with two of them, none of which has a token".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check paramiko==5.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import socket
import sys

import paramiko

lookups = []
real = socket.getfqdn
socket.getfqdn = lambda *name: lookups.append(name) or real(*name)


def count(lines: str) -> int:
    lookups.clear()
    paramiko.SSHConfig.from_text(f"Host box\n HostName 192.0.2.1\n{lines}").lookup("box")
    return len(lookups)


without, two = count(""), count(" IdentityFile /keys/one\n IdentityFile /keys/two\n")
print(f"lookups: {without} without IdentityFile, {two} with two of them, none of which has a token")
sys.exit((without, two) != (0, 2))
PYTHON
