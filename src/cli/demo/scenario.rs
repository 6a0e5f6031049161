//! What happens in the demo, second by second, and what is said about it.

use std::io::Stdout;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Client;
use serde_json::{Value, json};

use super::client::{Caller, Costs, integer_at, text_at};
use super::loads::{Load, Sandbox};
use super::screen::{Frame, Live, Mark, Screen, statement};
use crate::cli::format::{dollars, rfc3339};
use crate::cli::token;
use crate::clock::Clock;
use crate::domain::id::HostId;
use crate::domain::time::Timestamp;
use crate::ledger::Ledger;
use crate::ledger::command::Role;

/// How long sandboxes are metered, in seconds.
const SECONDS: i64 = 30;
/// When a lease with too low a `max_cost_micros` is asked for.
const SECOND_OF_MAX_COST: i64 = 5;
/// When a lease beyond the key's daily limit is asked for.
const SECOND_OF_LIMIT: i64 = 9;
/// When one sandbox is paused, and woken.
const SECONDS_OF_PAUSE: (i64, i64) = (13, 20);
/// When the read-only key tries to write.
const SECOND_OF_READ_ONLY: i64 = 24;
/// The daily limit of the demo's key, in microdollars: $1.
const DAILY_LIMIT_MICROS: i64 = 1_000_000;
/// How long a lease is granted, in seconds.
const LEASE_SECONDS: i64 = 600;
/// Where leases are asked for.
const LEASES: &str = "/v1/accounts/demo/leases";

/// The callers, and the screen.
pub(super) struct Scenario<'a> {
    screen: &'a mut Screen<Stdout>,
    url: String,
    clock: Clock,
    http: Client,
    admin: Caller,
    plane: Caller,
    host: Caller,
    reader: Option<(String, Caller)>,
    began: Timestamp,
}

/// A sandbox of the demo with the lease that it is on.
struct Tenant {
    load: Load,
    vcpus: i64,
    memory_mib: i64,
    sandbox: Sandbox,
    /// The time at which its counter was first seen: its epoch.
    epoch: i64,
    lease: Option<String>,
    wakes: u32,
    last: Option<(i64, i64)>,
    millicores: i64,
    disk_mib: i64,
}

impl<'a> Scenario<'a> {
    pub(super) async fn new(
        screen: &'a mut Screen<Stdout>,
        url: &str,
        ledger: &Ledger,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        // Somebody else in this process may have chosen it already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = Client::builder().timeout(Duration::from_secs(10)).no_proxy().build()?;
        let host = Role::Host(HostId::parse("demo-host")?);
        let admin = token::create(ledger, Role::Admin, "demo".to_owned()).await?;
        let plane = token::create(ledger, Role::ControlPlane, "demo".to_owned()).await?;
        let host = token::create(ledger, host, "demo".to_owned()).await?;
        let caller = |token: &str| Caller::new(&http, url, token);
        let (admin, plane, host) = (caller(&admin), caller(&plane), caller(&host));
        let began = clock.now();
        Ok(Self { screen, url: url.to_owned(), clock, http, admin, plane, host, reader: None, began })
    }

    /// An account with its free hours, a key with a limit, and a key that may only read.
    pub(super) async fn customers(&mut self) -> anyhow::Result<()> {
        self.screen.event(Mark::Note, &format!("an engine of its own on {}", self.url))?;
        let account = json!({ "id": "demo", "name": "Demo Inc", "card_on_file": true });
        self.admin.post("/v1/accounts", account).await?;
        let balance = self.admin.get("/v1/accounts/demo/balance").await?;
        let hours = integer_at(&balance, "/free/granted_ms")?.div_euclid(3_600_000);
        self.screen.event(Mark::Done, &format!("account demo, with {hours} free sandbox-hours"))?;
        let keys = "/v1/accounts/demo/keys";
        let key = json!({ "id": "ci", "name": "CI", "read_only": false, "daily_limit_micros": DAILY_LIMIT_MICROS });
        self.admin.post(keys, key).await?;
        self.screen.event(Mark::Done, &format!("key ci, at most {} a day", dollars(DAILY_LIMIT_MICROS)))?;
        let reader = json!({ "id": "reader", "name": "Dashboard", "read_only": true });
        let secret = text_at(&self.admin.post(keys, reader).await?, "/secret")?;
        let caller = Caller::new(&self.http, &self.url, &secret);
        self.reader = Some((secret, caller));
        self.screen.event(Mark::Done, "key reader, which may only read")?;
        Ok(())
    }

    /// Half a minute of three sandboxes.
    pub(super) async fn play(&mut self, folder: &Path) -> anyhow::Result<()> {
        let mut tenants = vec![
            self.tenant(Load::Busy, 2, 4_096, folder)?,
            self.tenant(Load::Idle, 1, 512, folder)?,
            self.tenant(Load::Bursty, 1, 1_024, folder)?,
        ];
        for tenant in &mut tenants {
            self.admit(tenant, "create").await?;
        }
        let by = tenants.first().map_or("", |tenant| tenant.sandbox.metered_by());
        self.screen.event(Mark::Done, &format!("three sandboxes admitted; their CPU is read from {by} each second"))?;
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        for second in 1..=SECONDS {
            ticks.tick().await;
            self.report(&mut tenants).await?;
            self.happening(second, &mut tenants).await?;
            let frame = self.frame(second, &tenants).await?;
            self.screen.frame(&frame)?;
        }
        for tenant in &mut tenants {
            self.end(tenant, "stop").await?;
        }
        self.screen.close()?;
        self.screen.event(Mark::Done, "all ended; what they had reserved is given back")?;
        Ok(())
    }

    fn tenant(&self, load: Load, vcpus: i64, memory_mib: i64, folder: &Path) -> anyhow::Result<Tenant> {
        let sandbox = Sandbox::start(load, folder)?;
        let epoch = self.clock.now().ms();
        let (lease, last) = (None, None);
        Ok(Tenant { load, vcpus, memory_mib, sandbox, epoch, lease, wakes: 0, last, millicores: 0, disk_mib: 0 })
    }

    /// Asks for a lease from now on, and sends the baseline: where its counter stands at that instant.
    async fn admit(&self, tenant: &mut Tenant, kind: &str) -> anyhow::Result<()> {
        let at = self.clock.now();
        let sample = tenant.sample(at)?;
        let lease = format!("{}-{}", tenant.load.name(), tenant.wakes);
        let body = tenant.asked(&lease, kind, Some(at), LEASE_SECONDS, None);
        self.plane.post(LEASES, body).await?;
        tenant.lease = Some(lease);
        tenant.wakes = tenant.wakes.saturating_add(1);
        self.send(vec![tenant.with_lease(sample)]).await
    }

    /// Reads and sends a last sample, then tells the end.
    async fn end(&self, tenant: &mut Tenant, reason: &str) -> anyhow::Result<()> {
        let at = self.clock.now();
        let sample = tenant.sample(at)?;
        self.send(vec![tenant.with_lease(sample)]).await?;
        let Some(lease) = tenant.lease.take() else { return Ok(()) };
        let body = json!({ "ended_at": rfc3339(at), "reason": reason });
        self.plane.post(&format!("{LEASES}/{lease}/end"), body).await?;
        (tenant.last, tenant.millicores) = (None, 0);
        Ok(())
    }

    /// One sample of each sandbox; of one at rest, its disk alone.
    async fn report(&self, tenants: &mut [Tenant]) -> anyhow::Result<()> {
        let mut samples = Vec::new();
        for tenant in tenants {
            let sample = tenant.sample(self.clock.now())?;
            samples.push(tenant.with_lease(sample));
        }
        self.send(samples).await
    }

    async fn send(&self, samples: Vec<Value>) -> anyhow::Result<()> {
        let answer = self.host.post("/v1/samples", Value::Array(samples)).await?;
        match answer.pointer("/rejected/0") {
            None => Ok(()),
            Some(rejected) => bail!("a sample was rejected: {rejected}"),
        }
    }

    /// What else happens in a second.
    async fn happening(&mut self, second: i64, tenants: &mut [Tenant]) -> anyhow::Result<()> {
        let (pause, wake) = SECONDS_OF_PAUSE;
        if second == SECOND_OF_MAX_COST {
            self.too_dear(tenants).await
        } else if second == SECOND_OF_LIMIT {
            self.over_the_limit(tenants).await
        } else if second == pause {
            self.rest(tenants, false).await
        } else if second == wake {
            self.rest(tenants, true).await
        } else if second == SECOND_OF_READ_ONLY {
            self.read_only().await
        } else {
            Ok(())
        }
    }

    async fn too_dear(&mut self, tenants: &[Tenant]) -> anyhow::Result<()> {
        let busy = tenants.first().context("no sandbox")?;
        let body = busy.asked_as("dear", "dear-0", 3_600, Some(50_000));
        let problem = self.plane.refused(LEASES, body).await?;
        let text = format!("an hour with max_cost_micros 50,000: {} {}", problem.status, problem.code);
        self.refusal(&text, &problem.detail, &problem.code, "max_cost_exceeded")
    }

    async fn over_the_limit(&mut self, tenants: &[Tenant]) -> anyhow::Result<()> {
        let busy = tenants.first().context("no sandbox")?;
        let body = busy.asked_as("long", "long-0", 86_400, None);
        let problem = self.plane.refused(LEASES, body).await?;
        let text = format!("a whole day of 2 vCPU: {} {}", problem.status, problem.code);
        self.refusal(&text, &problem.detail, &problem.code, "spending_limit_reached")
    }

    async fn read_only(&mut self) -> anyhow::Result<()> {
        let Some((_, reader)) = &self.reader else { bail!("no reader") };
        reader.get("/v1/accounts/demo/balance").await?;
        let problem = reader.refused("/v1/accounts/demo/keys", json!({ "id": "mine", "name": "Mine" })).await?;
        self.screen.event(Mark::Done, "the read-only key reads the balance")?;
        let text = format!("and may not make a key: {} {}", problem.status, problem.code);
        let code = problem.code.clone();
        self.refusal(&text, &problem.detail, &problem.code, &code)
    }

    fn refusal(&mut self, text: &str, detail: &str, code: &str, expected: &str) -> anyhow::Result<()> {
        if code != expected {
            bail!("{text}: {detail}; expected {expected}");
        }
        self.screen.event(Mark::Refused, text)?;
        self.screen.lines(&[format!("    {detail}")])?;
        Ok(())
    }

    /// Pauses the bursty sandbox, or wakes it.
    async fn rest(&mut self, tenants: &mut [Tenant], work: bool) -> anyhow::Result<()> {
        let Some(tenant) = tenants.iter_mut().find(|tenant| tenant.load == Load::Bursty) else { return Ok(()) };
        if work {
            self.admit(tenant, "wake").await?;
            tenant.sandbox.order(true)?;
            self.screen.event(Mark::Done, "bursty is woken: a new lease through the same gate")?;
        } else {
            tenant.sandbox.order(false)?;
            self.end(tenant, "pause").await?;
            let text = format!("bursty is paused: from now on only its {} MiB of disk cost", tenant.disk_mib);
            self.screen.event(Mark::Done, &text)?;
        }
        Ok(())
    }

    async fn costs(&self, group_by: &str) -> anyhow::Result<Costs> {
        let from = rfc3339(self.began.hour().start());
        let to = rfc3339(self.clock.now().hour().end());
        let query = format!("from={from}&to={to}&granularity=total&group_by={group_by}");
        let (_, reader) = self.reader.as_ref().context("no reader")?;
        let value = reader.get(&format!("/v1/accounts/demo/costs?{query}")).await?;
        let costs: Costs = serde_json::from_value(value.clone()).with_context(|| value.to_string())?;
        if costs.adds_up() { Ok(costs) } else { bail!("this table does not add up: {value}") }
    }

    async fn frame(&self, second: i64, tenants: &[Tenant]) -> anyhow::Result<Frame> {
        let costs = self.costs("sandbox").await?;
        let sandboxes = tenants.iter().map(|tenant| {
            let name = tenant.load.name();
            let row = costs.rows.iter().find(|row| row.sandbox.as_deref() == Some(name));
            Live {
                name: name.to_owned(),
                state: if tenant.lease.is_some() { "running" } else { "paused" },
                vcpus: tenant.vcpus,
                memory_mib: tenant.memory_mib,
                millicores: tenant.millicores,
                disk_mib: tenant.disk_mib,
                list_micros: row.map_or(0, |row| row.amounts.list_micros),
            }
        });
        let (list_micros, net_micros) = (costs.total.list_micros, costs.total.net_micros);
        Ok(Frame { second, seconds: SECONDS, sandboxes: sandboxes.collect(), list_micros, net_micros })
    }

    /// The statement, and where to go on if it serves on.
    pub(super) async fn tab(&mut self, serves_on: bool) -> anyhow::Result<()> {
        let (by_sandbox, by_resource) = (self.costs("sandbox").await?, self.costs("resource").await?);
        if by_sandbox.total != by_resource.total {
            bail!("by sandbox {:?}, by resource {:?}", by_sandbox.total, by_resource.total);
        }
        let (secret, reader) = self.reader.as_ref().context("no reader")?;
        let balance = reader.get("/v1/accounts/demo/balance").await?;
        let used = integer_at(&balance, "/free/used_ms")?;
        let left = integer_at(&balance, "/free/remaining_ms")?;
        let mut lines = vec![String::new()];
        lines.extend(statement(&by_sandbox, &by_resource, used, left));
        if serves_on {
            let (url, path) = (&self.url, "/v1/accounts/demo/balance");
            lines.push(String::new());
            lines.push(format!("Dashboard:      {url}/"));
            lines.push(format!("Read-only key:  {secret}"));
            lines.push(format!("Try:            curl -H 'Authorization: Bearer {secret}' {url}{path}"));
        }
        self.screen.lines(&lines)?;
        self.screen.event(Mark::Done, "every row adds up to its total, by sandbox and by resource")?;
        Ok(())
    }
}

impl Tenant {
    /// Reads the sandbox as a host does: the CPU counter and the disk, labelled with the time.
    fn sample(&mut self, at: Timestamp) -> anyhow::Result<Value> {
        self.disk_mib = self.sandbox.disk_mib()?;
        let counter = self.sandbox.read()?.cpu_usage_us;
        if let Some((before_ms, before_us)) = self.last {
            let ms = at.ms().saturating_sub(before_ms);
            self.millicores = counter.saturating_sub(before_us).checked_div(ms).unwrap_or(0);
        }
        self.last = Some((at.ms(), counter));
        Ok(json!({
            "account": "demo", "sandbox": self.load.name(), "at": rfc3339(at), "cpu_usage_usec": counter,
            "epoch": self.epoch, "memory_mib": self.memory_mib, "storage_mib": self.disk_mib,
        }))
    }

    /// The sample as it is sent: of the lease, or of a sandbox at rest.
    fn with_lease(&mut self, mut sample: Value) -> Value {
        if let Some(fields) = sample.as_object_mut() {
            if let Some(lease) = &self.lease {
                fields.insert("lease".to_owned(), json!(lease));
            } else {
                fields.retain(|name, _| !["cpu_usage_usec", "epoch", "memory_mib"].contains(&name.as_str()));
                self.millicores = 0;
            }
        }
        sample
    }

    fn asked(&self, lease: &str, kind: &str, at: Option<Timestamp>, seconds: i64, max_cost: Option<i64>) -> Value {
        json!({ "key": "ci", "leases": [{
            "id": lease, "sandbox": self.load.name(), "kind": kind, "vcpus": self.vcpus, "memory_mib": self.memory_mib,
            "timeout_seconds": seconds, "max_cost_micros": max_cost, "host": "demo-host",
            "starts_at": at.map(rfc3339), "replaces": null,
        }]})
    }

    /// A lease of the same shape for another sandbox, which is not to run.
    fn asked_as(&self, sandbox: &str, lease: &str, seconds: i64, max_cost: Option<i64>) -> Value {
        let mut body = self.asked(lease, "create", None, seconds, max_cost);
        if let Some(name) = body.pointer_mut("/leases/0/sandbox") {
            *name = json!(sandbox);
        }
        body
    }
}
