// One request that every virtual user repeats. The load comes from the environment (k6 run -e NAME=value); the summary
// goes to the file summary.json, with counters of the statuses and of the errors without a status.
import exec from "k6/execution";
import http from "k6/http";
import { sleep } from "k6";
import { SharedArray } from "k6/data";
import { Counter, Trend } from "k6/metrics";

const env = __ENV;
const most_vus = Number(env.MAX_CONNECTIONS || env.CONNECTIONS);
const vus = env.ARRIVALS ? most_vus : Number(env.CONNECTIONS);
const length_ms = 1000 * Number(env.DURATION.slice(0, -1));
const lead_ms = Number(env.LEAD_MS || 0); // from the start of the users to that of their load
const closed = env.ITERATIONS
  ? { executor: "shared-iterations", vus: vus, iterations: Number(env.ITERATIONS), maxDuration: "24h" }
  : { executor: "constant-vus", vus: vus, duration: `${length_ms + lead_ms}ms` };
const at_rate = {
  executor: "constant-arrival-rate", rate: Number(env.RATE), timeUnit: env.RATE_UNIT, duration: env.DURATION,
  preAllocatedVUs: vus, maxVUs: most_vus,
};

export const options = {
  scenarios: { load: Object.assign(env.RATE && !env.ARRIVALS ? at_rate : closed, { gracefulStop: env.TIMEOUT }) },
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

// Arrivals that each user makes a share of: all but k6's own even ones. Times in ms since the start of the load.
const rate_per_ms = env.ARRIVALS ? Number(env.RATE) / Number(env.RATE_UNIT.slice(0, -1)) / 1000 : 0;
const has_schedule = env.ARRIVALS && env.ARRIVALS !== "users"; // the starts of its requests are known beforehand
const intended = new Trend("intended_duration", true);
let start_ms = null; // on the clock of the test run, which has fractions
let times_ms = []; // of this user's requests still to come, the latest first
let answered = 0, answered_ms = 0;

function now() {
  return exec.instance.currentTestRunDuration - start_ms;
}

function begin() {
  start_ms = exec.instance.currentTestRunDuration - (Date.now() - exec.scenario.startTime) + lead_ms;
  const total = Math.round(rate_per_ms * length_ms), user = exec.vu.idInInstance;
  const number = Math.floor(total / vus) + (user <= total % vus ? 1 : 0);
  const time = env.ARRIVALS === "even" ? (n) => (user - 1 + n * vus) / rate_per_ms : () => Math.random() * length_ms;
  times_ms = Array.from({ length: number }, (_, n) => time(n)).sort((a, b) => b - a);
}

// A load on several targets by turns (SHARED): request number n is of the turn [first request, arm] in which it lies.
const lines = (file) => open(file).trim().split("\n").map((line) => line.split(" "));
const turns = new SharedArray("turns", () => {
  let first = 0;
  return env.SHARED ? lines("./schedule").map(([arm, requests]) => [(first += Number(requests)) - requests, arm]) : [];
});
const targets = {};
if (env.SHARED) {
  for (const [arm, url] of lines("./arms")) targets[arm] = { url, params: Object.assign({ tags: { arm } }, params) };
}

function target(number) {
  if (!env.SHARED) return { url: env.URL, params };
  let low = 0, high = turns.length - 1;
  if (number < turns.length && turns[number][0] === number) low = high = number; // every turn is one request
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (turns[middle][0] <= number) low = middle;
    else high = middle - 1;
  }
  return targets[turns[low][1]];
}

// time of the next request; the end of the load if there is none
function next() {
  if (has_schedule) return times_ms.length ? times_ms.pop() : length_ms;
  // users wait, on average, the rest of their share of the time
  const wait = Math.max(0, vus / rate_per_ms - (answered ? answered_ms / answered : 0));
  return now() - Math.log(1 - Math.random()) * wait;
}

export default function () {
  let due = 0;
  if (env.ARRIVALS) {
    if (start_ms === null) begin();
    due = Math.min(next(), length_ms);
    sleep(Math.max(0, due - now()) / 1000);
    if (due === length_ms) return;
  }
  if (has_schedule) exec.vu.metrics.metadata["due_us"] = String(Math.round(1000 * due)); // in the points of the request
  const sent_ms = env.ARRIVALS ? now() : 0;
  const to = target(Math.round(rate_per_ms * due));
  const answer = http.get(to.url, to.params);
  const first = Math.floor(answer.status / 100);
  (statuses[first] || failures[failure(answer.error_code)]).add(1);
  answered += 1;
  answered_ms += env.ARRIVALS ? now() - sent_ms : 0;
  if (has_schedule && (first === 2 || first === 3)) intended.add(now() - due);
  if (think) sleep(think);
}

export function handleSummary(data) {
  return { "summary.json": JSON.stringify(data) };
}
