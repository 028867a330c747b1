"""The hosts file beside a run's raw data that plays this very run back (hosts.replay)."""

from __future__ import annotations

import json

from loadbook.hosts.inventory import format_entry
from loadbook.trials.bench import Testbed

REPLAY_HEADER = '# plays this run back: loadbook run STUDY --hosts THIS-FILE\nreplay = "."\n'


def replay_hosts_file(testbed: Testbed) -> str:
    """Return a hosts file of the run's own hosts: all that a report reads of them, and nothing of the way to them."""
    inventory = testbed.inventory
    settings = {"currency": inventory.currency, "external": inventory.external}
    head = REPLAY_HEADER + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items() if value)
    prices = [f"{json.dumps(role)} = {json.dumps(price)}" for role, price in inventory.external_prices.items()]
    external = ["\n".join(["[external_prices]", *prices, ""])] if prices else []
    return "\n".join([head, *(_replay_entry(testbed, alias) for alias in testbed.hosts), *external])


def _replay_entry(testbed: Testbed, alias: str) -> str:
    entry = testbed.inventory.hosts[alias]
    optional = {"cpus": entry.cpus, "link_mbit": entry.link_mbit, "may": entry.may, "price_per_month": entry.price_per_month}
    required = {"roles": testbed.roles_of(alias), "address": testbed.hosts[alias].address, "service_port": entry.service_port}
    return format_entry(alias, required | {key: value for key, value in optional.items() if value})
