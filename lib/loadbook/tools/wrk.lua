-- Prints wrk's results exactly, with units, after the run, for loadbook/tools/wrk.py to read.
-- wrk's author declined a machine-readable format and points to done() instead: github.com/wg/wrk/issues/313.
-- Only done() is defined: with no request(), response() or delay() wrk runs its C path, so the load is the same.

function done(summary, latency, requests)
  local function say(key, value, unit, digits)
    io.write(string.format("%s %." .. (digits or 0) .. "f%s\n", key, value, unit or ""))
  end
  io.write("loadbook-begin 1\n")
  say("duration", summary.duration, "us")
  say("requests", summary.requests)
  say("bytes", summary.bytes, "B")
  for _, class in ipairs({"connect", "read", "write", "timeout", "status"}) do
    say(class, summary.errors[class])
  end
  if latency.max > 0 then -- no sample: min would be 2^64-1 and the rest 0
    say("min", latency.min, "us")
    say("mean", latency.mean, "us", 3)
    say("sd", latency.stdev, "us", 3)
    say("max", latency.max, "us")
    for _, p in ipairs({50, 75, 90, 99, 99.9}) do
      say("p" .. p, latency:percentile(p), "us")
    end
  end
  io.write("loadbook-end\n")
end
