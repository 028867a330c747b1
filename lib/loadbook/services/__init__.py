"""Services: server software described by files (one folder each), and the code that runs any of them.

- `variables`: the variables of a service and the values that they accept
- `spec`: the models of service.toml: files, commands, checks, counters, error messages
- `build`: building programs that come as sources, on the host or on this machine
- `render`: configuration files and argument lists from templates and values
- `processes`: the processes of a running service, and the number of its workers
- `instance`: one service on a host for one trial: check its configuration, start, wait, prove, stop
- `system`: the host's own server, its files replaced for one trial
- `cpu_time`: the CPU time that services have used
- `check`: checks of a study's values against its services; the text of a new, commented study file

How a trial uses this package (every call is bounded in time; errors are HostError, bad values are StudyError)::

    folders = [layout.studies / "services"]     # searched before the services that come with loadbook
    problems = check_study(study, folders)      # plan: every problem at once, with key paths
    spec = load_service("nginx", folders)       # ServiceSpec
    version(host, spec)                         # "1.22.1", or ServiceError with the package to install;
                                                # builds a program distributed as sources, as check() does

    # folder, address and port on that host
    context = InstanceContext.for_instance(host, name="t0001-a1-web", port=18080)
    # main=b"...": the study's own file in place of spec.main
    rendered = render(spec, study.vars_of(treatment, "web"), context)
    rendered.files, rendered.config_sha256, rendered.config_id      # for the trial's record

    launch = LaunchOptions(cpus=(2, 3), nofile=64000)
    web = Instance(host, spec, rendered, name="t0001-a1-web", lease_s=60.0, launch=launch)
    web.check()                # put files, prepare, syntax check, effective dump; ServiceError with the tool's output
    pid = web.start()          # a fresh process as a Job of that name under a lease
    web.ready(driver)          # waits for status 200 on the driver; the error of a dead process has the end of its log
    proof = web.prove(driver)  # Proof(live: bool | None, evidence: str, pids: list[int], workers: int | None); trial is
                               # void when not live
    web.counters(driver)       # {"requests": 12.0, "connections": 3.0}: since its start; {} without counters
    web.pids()                 # the service's own processes, for the monitors: call it after the warm-up, as a server
                               # may answer before its last worker is forked
    web.effective_config       # bytes of the service's own dump (b"" when it has none)
    web.log()                  # last bytes of stderr
    web.stop()                 # idempotent; ends the processes and removes the folder; call it in `finally`

    own = SystemInstance(host, spec.as_system(), ...)   # the same calls on the host's own server: check() on a copy
                               # of its files, start() replaces and reloads, stop() puts back the files of before

"""

from __future__ import annotations

from loadbook.services.check import check_study
from loadbook.services.instance import Instance, LaunchOptions, Proof, ServiceError, version
from loadbook.services.render import InstanceContext, RenderedService, render
from loadbook.services.spec import ServiceSpec, known_services, load_service
from loadbook.services.system import SystemInstance

__all__ = [
    "Instance", "InstanceContext", "LaunchOptions", "Proof", "RenderedService", "ServiceError", "ServiceSpec",
    "SystemInstance", "check_study", "known_services", "load_service", "render", "version",
]  # fmt: skip
