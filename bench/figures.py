"""Series of times as tables and as JSON, and what they were measured on."""
import os
import time


def percentile(values, p):
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def summary(seconds):
    """Of durations, in microseconds."""
    return {"count": len(seconds), **{
        name: round(1e6 * percentile(seconds, p), 1)
        for name, p in (("min_us", 0), ("p50_us", 50), ("p90_us", 90), ("p99_us", 99),
                        ("max_us", 100))}}


def show(title, seconds, beside=None):
    s = summary(seconds)
    ratio = f"{s['p50_us'] / summary(beside)['p50_us']:8.2f}" if beside else ""
    print(f"  {title:<44}" + "".join(
        f"{s[k] / 1000:10.3f}" for k in ("min_us", "p50_us", "p90_us", "p99_us")) + ratio, flush=True)
    return s


def heading(text, columns=("least", "p50", "p90", "p99", "/ beside")):
    print(f"\n{text:<46}" + "".join(f"{c:>10}" for c in columns), flush=True)


def timed(fn):
    begin = time.perf_counter()
    fn()
    return time.perf_counter() - begin


def cpu_model():
    with open("/proc/cpuinfo") as f:
        return next((x.split(":")[1].strip() for x in f if x.startswith("model name")), "unknown")


def load_average():
    return [round(x, 2) for x in os.getloadavg()]
