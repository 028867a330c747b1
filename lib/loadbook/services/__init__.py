"""Floor 6: against what? One folder per server software; one module that runs any of them.

How a trial uses this floor (every call is bounded in time; errors are HostError, bad values are StudyError)::

    folders = [layout.studies / "services"]                 # searched before the services that come with loadbook
    problems = check_study(study, folders)                  # plan: every problem at once, with key paths
    spec = load_service("nginx", folders)                   # ServiceSpec
    version(host, spec)                                     # "1.22.1", or ServiceError with the package to install;
                               # what comes as sources is built by this, and by check(), where it is not there yet

    context = InstanceContext.for_instance(host, name="t0001-a1-web", port=18080) # folder, address and port on that host
    rendered = render(spec, study.vars_of(treatment, "web"), context)
                                                            # main=b"...": the study's own file in place of spec.main
    rendered.files, rendered.config_sha256, rendered.config_id      # what goes into the trial's record

    web = Instance(host, spec, rendered, name="t0001-a1-web", lease_s=60.0, launch=LaunchOptions(cpus=(2, 3), nofile=64000))
    web.check()                # put files, prepare, syntax check, effective dump; ServiceError with the tool's words
    pid = web.start()          # a fresh process as a Job of that name under a lease
    web.ready(driver)          # the driver's http_get answers 200; a process that died raises with its log's end
    proof = web.prove(driver)  # Proof(live: bool | None, evidence: str, pids: list[int]); trial is void when not live
    web.counters(driver)       # {"requests": 12.0, "connections": 3.0}: since its start; {} when it does not count
    web.pids()                 # the service's own processes, for the monitors: ask after the warm-up, since a server
                               # may answer before its last worker is forked
    web.effective_config()     # bytes of the service's own dump (b"" when it has none)
    web.log()                  # last bytes of stderr
    web.stop()                 # idempotent; ends the processes and removes the folder; call it in `finally`

    own = SystemInstance(host, spec.as_system(), ...)       # the same calls on the host's own server: check() on a copy
                               # of its files, start() replaces and reloads, stop() puts back what was there

    wait_for_http(driver, address, port, path, ...)              # an external service: an address only
"""

from __future__ import annotations

from loadbook.services.check import check_study
from loadbook.services.instance import Instance, LaunchOptions, Proof, ServiceError, version, wait_for_http
from loadbook.services.render import InstanceContext, RenderedService, render
from loadbook.services.spec import ServiceSpec, known_services, load_service
from loadbook.services.system import SystemInstance

__all__ = [
    "Instance",
    "InstanceContext",
    "LaunchOptions",
    "Proof",
    "RenderedService",
    "ServiceError",
    "ServiceSpec",
    "SystemInstance",
    "check_study",
    "known_services",
    "load_service",
    "render",
    "version",
    "wait_for_http",
]
