// One request that every virtual user repeats. The load comes from the environment (k6 run -e NAME=value); the summary
// goes to the file summary.json, with counters of the statuses and of the errors without a status.
import http from "k6/http";
import { sleep } from "k6";
import { Counter } from "k6/metrics";

const env = __ENV;
const vus = Number(env.CONNECTIONS);
const closed = env.ITERATIONS
  ? { executor: "shared-iterations", vus: vus, iterations: Number(env.ITERATIONS), maxDuration: "24h" }
  : { executor: "constant-vus", vus: vus, duration: env.DURATION };
const open = {
  executor: "constant-arrival-rate", rate: Number(env.RATE), timeUnit: env.RATE_UNIT, duration: env.DURATION,
  preAllocatedVUs: vus, maxVUs: vus,
};

export const options = {
  scenarios: { load: Object.assign(env.RATE ? open : closed, { gracefulStop: env.TIMEOUT }) },
  discardResponseBodies: true,
  insecureSkipTLSVerify: true,
  maxRedirects: 0,
  noConnectionReuse: env.KEEPALIVE === "false",
  summaryTrendStats: ["avg", "min", "med", "p(75)", "p(90)", "p(95)", "p(99)", "p(99.9)", "max"],
};

const params = { timeout: env.TIMEOUT, headers: JSON.parse(env.HEADERS) };
const think = Number(env.THINK || 0);
const statuses = {};
for (const first of [1, 2, 3, 4, 5]) statuses[first] = new Counter(`status_${first}xx`);
const failures = {};
for (const name of ["connect", "timeout", "read", "write", "other"]) failures[name] = new Counter(`errors_${name}`);

// k6's error codes: 105x request time-out; 11xx DNS, 121x dial, 13xx TLS; 1201 broken pipe; 12xx other TCP, 16xx HTTP/2
function failure(code) {
  if (code >= 1050 && code < 1060) return "timeout";
  if ((code >= 1100 && code < 1200) || (code >= 1210 && code < 1220) || (code >= 1300 && code < 1400)) return "connect";
  if (code === 1201) return "write";
  if ((code >= 1200 && code < 1300) || (code >= 1600 && code < 1700)) return "read";
  return "other";
}

export default function () {
  const answer = http.get(env.URL, params);
  const first = Math.floor(answer.status / 100);
  (statuses[first] || failures[failure(answer.error_code)]).add(1);
  if (think) sleep(think);
}

export function handleSummary(data) {
  return { "summary.json": JSON.stringify(data) };
}
