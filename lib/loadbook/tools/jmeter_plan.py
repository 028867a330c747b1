"""JMeter's test plan for a workload, and the properties that pass the workload to a generated or user-written plan.

Target and load are passed on the command line as properties (``-Jhost=...``), which a plan reads as ``${__P(host)}``.
Only headers, timers and keep-alive, which properties cannot express, are written into the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as ET

from loadbook.core.errors import ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target

# RFC 3986: java.net.URI refuses anything else; a fragment would not be sent
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})+\Z")
_DOCTYPE = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
MAX_STARTS = 10_000_000  # of an open load: 8 bytes each of JMeter's heap

PropertyTriples = Iterable[tuple[str, str, object]]


def load_properties(workload: Workload, target: Target, seconds: int) -> dict[str, str]:
    """Return the workload as JMeter properties (texts and whole numbers); ToolError for other values."""
    if not _PATH.match(workload.path):
        raise ToolError(f"JMeter cannot request the path {workload.path!r}", "write it percent-encoded, without '#'")
    properties = {
        "host": target.address,
        "port": str(target.port),
        "scheme": target.scheme,
        "path": workload.path,
        "threads": str(workload.connections),
        "duration": str(seconds),
        "timeout_ms": str(_whole_ms("timeout_s", workload.timeout_s)),
    }
    if workload.requests is not None:
        properties["loops"] = str(_loops_per_thread(workload.requests, workload.connections))
    if workload.rate_per_s is not None:
        properties["rate"] = _rate_text(workload.rate_per_s, seconds)
    if workload.think_time_s:
        properties["think_ms"] = str(_whole_ms("think_time_s", workload.think_time_s))
    return properties


def plan_xml(workload: Workload) -> bytes:
    """Return the plan of a workload: the user's own where it names one."""
    return _user_plan(workload) if workload.plan or workload.plan_text else _generated_plan(workload)


def _user_plan(workload: Workload) -> bytes:
    """Return the user's own plan; ToolError unless it is a test plan that takes the load from the study."""
    data, name = (workload.plan_text or "").encode(), f"workload.plan: {workload.plan}"
    try:
        root = None if _DOCTYPE.search(data) else ET.fromstring(data)  # noqa: S314 - no DTD, so no entities
    except ET.ParseError as error:
        raise ToolError(f"{name} is not XML: {error}", "save it again in JMeter") from None
    if root is None or root.tag != "jmeterTestPlan":
        raise ToolError(f"{name} is no JMeter test plan", "name the .jmx that JMeter saved")
    if workload.headers or not workload.keepalive:
        raise ToolError(f"{name} decides on headers and keep-alive itself", "drop both from the workload")
    missing = [
        p for p in _required_properties(workload) if not re.search(rf"\$\{{__(P|property)\({p}[,)]".encode(), data)
    ]
    if missing:
        raise ToolError(
            f"{name} does not read {', '.join(missing)}: its load would not be the study's",
            f"write {', '.join(f'${{__P({p})}}' for p in missing)} where the plan has values of its own",
        )
    return data


def _required_properties(workload: Workload) -> Iterator[str]:
    """Yield the properties that a user's plan must read, because it would otherwise make another load."""
    yield from ("host", "port", "threads", "duration" if workload.requests is None else "loops")
    yield from ["rate"] if workload.rate_per_s is not None else []
    yield from ["think_ms"] if workload.think_time_s else []


def _generated_plan(workload: Workload) -> bytes:
    """Return a plan of one request that every thread repeats."""
    children = [_sampler(workload), *_timers(workload), *_headers(workload)]
    group = _hash_tree((_thread_group(workload), _hash_tree(*((child, _hash_tree()) for child in children))))
    root = ET.Element("jmeterTestPlan", version="1.2", properties="5.0", jmeter="5.6.3")
    root.append(_hash_tree((_element("TestPlan", "TestPlanGui", "loadbook", _plan_properties()), group)))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _rate_text(rate_per_s: float, seconds: int) -> str:
    if rate_per_s * seconds > MAX_STARTS:
        raise ToolError(
            f"jmeter draws all {rate_per_s * seconds:g} starts of an open load beforehand, which takes its memory",
            f"at most {MAX_STARTS} of them: lower duration_s or rate_per_s",
        )
    return f"{rate_per_s:.15g}"


def _whole_ms(field: str, value_s: float) -> int:
    ms = round(value_s * 1000)
    if ms < 1 or abs(ms - value_s * 1000) > 1e-6:
        raise ToolError(f"jmeter takes whole milliseconds only: {field} = {value_s:g} s cannot be done", "round it")
    return ms


def _loops_per_thread(requests: int, connections: int) -> int:
    """Return the requests of each thread, which are the same for all of them."""
    loops, rest = divmod(requests, connections)
    if rest:
        raise ToolError(
            f"jmeter shares {requests} requests evenly among {connections} connections, which cannot be done",
            f"use requests = {loops * connections} or {(loops + 1) * connections}",
        )
    return loops


def _hash_tree(*pairs: tuple[ET.Element, ET.Element]) -> ET.Element:
    """Return a hashTree: elements, each followed by the tree of its children."""
    tree = ET.Element("hashTree")
    for pair in pairs:
        tree.extend(pair)
    return tree


def _element(kind: str, gui: str, name: str, props: PropertyTriples) -> ET.Element:
    """Return a test element with its properties, given as (type, name, value)."""
    element = ET.Element(kind, guiclass=gui, testclass=kind, testname=name, enabled="true")
    _add_properties(element, props)
    return element


def _add_properties(element: ET.Element, props: PropertyTriples) -> None:
    for kind, name, value in props:
        child = ET.SubElement(element, kind, name=name)
        if isinstance(value, ET.Element):
            child.set("elementType", value.tag)
            child.attrib.update({k: v for k, v in value.attrib.items() if k != "name"})
            child.extend(value)
        else:
            child.text = str(value).lower() if isinstance(value, bool) else str(value)


def _empty_arguments() -> ET.Element:
    arguments = ET.Element("Arguments")
    ET.SubElement(arguments, "collectionProp", name="Arguments.arguments")
    return arguments


def _plan_properties() -> Iterator[tuple[str, str, object]]:
    yield "boolProp", "TestPlan.functional_mode", False
    yield "elementProp", "TestPlan.user_defined_variables", _empty_arguments()


def _thread_group(workload: Workload) -> ET.Element:
    """Return the group of threads, one a connection; they keep their connection from one request to the next."""
    loops = ET.Element("LoopController")
    _add_properties(loops, [("stringProp", "LoopController.loops", "${__P(loops,-1)}")])
    _add_properties(loops, [("boolProp", "LoopController.continue_forever", False)])
    props = [
        ("elementProp", "ThreadGroup.main_controller", loops),
        ("stringProp", "ThreadGroup.on_sample_error", "continue"),
        ("stringProp", "ThreadGroup.num_threads", "${__P(threads)}"),
        ("stringProp", "ThreadGroup.ramp_time", "${__P(ramp,0)}"),
        ("boolProp", "ThreadGroup.scheduler", workload.requests is None),
        ("stringProp", "ThreadGroup.duration", "${__P(duration,)}"),
        ("stringProp", "ThreadGroup.delay", "0"),
        ("boolProp", "ThreadGroup.same_user_on_next_iteration", True),
    ]
    return _element("ThreadGroup", "ThreadGroupGui", "load", props)


def _sampler(workload: Workload) -> ET.Element:
    """Return the request; redirects are answers like any other, and are not followed."""
    props = [
        ("elementProp", "HTTPsampler.Arguments", _empty_arguments()),
        ("stringProp", "HTTPSampler.domain", "${__P(host)}"),
        ("stringProp", "HTTPSampler.port", "${__P(port)}"),
        ("stringProp", "HTTPSampler.protocol", "${__P(scheme)}"),
        ("stringProp", "HTTPSampler.path", "${__P(path)}"),
        ("stringProp", "HTTPSampler.method", "GET"),
        ("boolProp", "HTTPSampler.follow_redirects", False),
        ("boolProp", "HTTPSampler.auto_redirects", False),
        ("boolProp", "HTTPSampler.use_keepalive", workload.keepalive),
        ("stringProp", "HTTPSampler.implementation", "HttpClient4"),
        ("stringProp", "HTTPSampler.connect_timeout", "${__P(timeout_ms)}"),
        ("stringProp", "HTTPSampler.response_timeout", "${__P(timeout_ms)}"),
    ]
    return _element("HTTPSamplerProxy", "HttpTestSampleGui", "request", props)


def _timers(workload: Workload) -> Iterator[ET.Element]:
    """Yield the timers of the threads: a think time, or the start times of an open load."""
    if workload.think_time_s:
        props = [("stringProp", "ConstantTimer.delay", "${__P(think_ms)}")]
        yield _element("ConstantTimer", "ConstantTimerGui", "think time", props)
    if workload.rate_per_s is not None:
        props = [
            ("stringProp", "throughput", "${__P(rate)}"),
            ("intProp", "throughputPeriod", "1"),
            ("stringProp", "duration", "${__P(duration)}"),
            ("intProp", "batchSize", "1"),
            ("intProp", "batchThreadDelay", "0"),
            ("stringProp", "randomSeed", "${__P(seed,0)}"),
        ]
        yield _element("PreciseThroughputTimer", "TestBeanGUI", "arrivals", props)


def _headers(workload: Workload) -> Iterator[ET.Element]:
    """Yield the request headers, without ``Connection``, which JMeter sends itself."""
    if any(name.lower() == "connection" for name in workload.headers):
        raise ToolError("jmeter sends the header Connection itself", "drop it, and set workload.keepalive")
    headers = {name: value for name, value in base.request_headers(workload).items() if name != "Connection"}
    if not headers:
        return
    listed = ET.Element("collectionProp", name="HeaderManager.headers")
    for name, value in headers.items():
        if "${" in name + value:
            raise ToolError(f"JMeter reads ${{...}} in the header {name} as an expression", "use the tool wrk")
        header = ET.SubElement(listed, "elementProp", name="", elementType="Header")
        _add_properties(header, [("stringProp", "Header.name", name), ("stringProp", "Header.value", value)])
    manager = _element("HeaderManager", "HeaderPanel", "headers", [])
    manager.append(listed)
    yield manager
