"""The hosts file beside a run's raw data that plays this very run back (hosts.replay)."""

from __future__ import annotations

import json

from loadbook.hosts.inventory import entry_text
from loadbook.trials.bench import Bench

HEAD = '# plays this run back: loadbook run STUDY --hosts THIS-FILE\nreplay = "."\n'


def replay_file(bench: Bench) -> str:
    """Return a hosts file of the run's own hosts: all that a report reads of them, and nothing of the way to them."""
    inventory = bench.inventory
    told = {"currency": inventory.currency, "external": inventory.external}
    head = HEAD + "".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items() if value)
    prices = [f"{json.dumps(role)} = {json.dumps(price)}" for role, price in inventory.external_prices.items()]
    external = ["\n".join(["[external_prices]", *prices, ""])] if prices else []
    return "\n".join([head, *(_entry(bench, alias) for alias in bench.hosts), *external])


def _entry(bench: Bench, alias: str) -> str:
    entry = bench.inventory.hosts[alias]
    own = {"cpus": entry.cpus, "link_mbit": entry.link_mbit, "may": entry.may, "price_per_month": entry.price_per_month}
    way = {"roles": bench.roles_of(alias), "address": bench.hosts[alias].address, "service_port": entry.service_port}
    return entry_text(alias, way | {key: value for key, value in own.items() if value})
