"""Treatments of runs whose harness checks do not pass, though one of them is clearly faster."""

from __future__ import annotations

from mock_project import Arm

FASTER = Arm(0.3, label="tcp_nopush on")
CHECKS = {
    "noisy A/A arm": (Arm(check="aa", label="A/A", scatter=0.6), Arm(-0.1, check="control", expect="worse")),
    "failed A/A arm": (Arm(0.2, check="aa", label="A/A"), Arm(-0.1, check="control", expect="worse")),
    "known effect not found": (Arm(check="aa", label="A/A"), Arm(0.0, check="control", expect="worse")),
    "driver at its limit": (Arm(check="aa", label="A/A"), Arm(-0.1, check="control", expect="worse")),
}
