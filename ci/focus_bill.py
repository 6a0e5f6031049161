"""Bills two months of one account on an engine with a test clock, and keeps the second as FOCUS rows.

focus_bill.py ADDRESS TOKEN FOLDER: writes bill.focus.csv and bill.focus.parquet into the folder.
"""

import json
import sys
import urllib.request

address, token, folder = sys.argv[1:]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(address + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def clock(now):
    call("PUT", "/v1/test-clock", {"now": now})


def sample(at, cpu_seconds, lease="l-1", **more):
    row = {"account": "acme", "sandbox": "s-1", "lease": lease, "at": at, "cpu_usage_usec": cpu_seconds * 1_000_000 + 7}
    answer = json.loads(call("POST", "/v1/samples", [{**row, **more}]))
    assert answer["accepted"] == 1, answer


card = {"cpu_micros_per_vcpu_hour": 30_000, "memory_micros_per_gib_hour": 7_500, "storage_micros_per_gib_hour": 111}
call("POST", "/v1/rate-cards", {"id": "2026-11-15", "effective_on": "2026-11-15", "cpu_floor_millicores": 60, **card})
call("POST", "/v1/accounts", {"id": "acme", "name": 'Acme, "Inc"', "card_on_file": True, "tax_rate_bps": 1_900})
call("POST", "/v1/accounts/acme/grants", {"id": "promo", "credit_micros": 250_000, "starts_on": "2026-11-10"})
call("POST", "/v1/accounts/acme/keys", {"id": "ci", "name": "CI"})
lease = {"id": "l-1", "sandbox": "s-1", "kind": "create", "vcpus": 2, "memory_mib": 4096, "timeout_seconds": 2_500_000}
call("POST", "/v1/accounts/acme/leases", {"key": "ci", "leases": [lease]})
clock("2026-10-31T12:00:00Z")
sample("2026-10-30T10:00:00Z", 3_000, storage_mib=812)
sample("2026-10-30T20:00:00Z", 9_000)
clock("2026-11-03T00:00:00Z")
call("POST", "/v1/months/2026-10/close", {})
# Late usage of October; most of it is paid by free hours.
sample("2026-10-31T10:00:00Z", 9_000)
clock("2026-11-20T12:00:00Z")
sample("2026-11-02T00:00:00Z", 100_000, storage_mib=4_000)
sample("2026-11-14T23:00:00Z", 200_000)
sample("2026-11-16T01:00:00Z", 260_000)
call("POST", "/v1/accounts/acme/leases/l-1/end", {"reason": "pause", "ended_at": "2026-11-16T02:00:00Z"})
clock("2026-12-04T00:00:00Z")
rest = {"account": "acme", "sandbox": "s-1", "at": "2026-11-29T00:00:00Z", "storage_mib": 3_000}
assert json.loads(call("POST", "/v1/samples", [rest]))["accepted"] == 1
call("POST", "/v1/months/2026-11/close", {})
for end in ("csv", "parquet"):
    with open(f"{folder}/bill.focus.{end}", "wb") as out:
        out.write(call("GET", f"/v1/accounts/acme/invoices/2026-11.focus.{end}"))
