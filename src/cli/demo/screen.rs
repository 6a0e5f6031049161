//! What the demo shows: pure formatting, and the writer that redraws on a terminal and prints plain lines elsewhere.

use std::io::Write;

use super::client::{Amounts, CostRow, Costs};
use crate::cli::format::{Align, Table, bar, dollars, grouped, thousandths};

/// One line of the live table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The sandbox.
    pub name: String,
    /// `running` or `paused`.
    pub state: &'static str,
    /// vCPUs of its lease.
    pub vcpus: i64,
    /// Memory of its lease, in MiB.
    pub memory_mib: i64,
    /// CPU over the last second, in millicores.
    pub millicores: i64,
    /// Its disk, in MiB.
    pub disk_mib: i64,
    /// Its cost so far, in microdollars.
    pub list_micros: i64,
}

/// What is shown at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How long it has been going, in seconds.
    pub second: i64,
    /// How long it goes.
    pub seconds: i64,
    /// The sandboxes.
    pub sandboxes: Vec<Live>,
    /// All costs so far at list price, in microdollars.
    pub list_micros: i64,
    /// What of it is to be paid.
    pub net_micros: i64,
}

/// Cells of the CPU bar.
const BAR_CELLS: u16 = 10;

/// The live table.
#[must_use]
pub fn frame_lines(frame: &Frame) -> Vec<String> {
    let mut table = Table::new(&[
        ("sandbox", Align::Left),
        ("state", Align::Left),
        ("shape", Align::Right),
        ("CPU now", Align::Left),
        ("", Align::Right),
        ("disk", Align::Right),
        ("cost so far", Align::Right),
    ]);
    for live in &frame.sandboxes {
        table.row(vec![
            live.name.clone(),
            live.state.to_owned(),
            format!("{} vCPU, {} MiB", live.vcpus, grouped(live.memory_mib.unsigned_abs())),
            bar(i128::from(live.millicores), i128::from(live.vcpus.saturating_mul(1_000)), BAR_CELLS),
            format!("{} m", live.millicores),
            format!("{} MiB", live.disk_mib),
            dollars(live.list_micros),
        ]);
    }
    let paid = format!("{} to pay", dollars(frame.net_micros));
    table.footing(vec![
        "all".into(),
        String::new(),
        paid,
        String::new(),
        String::new(),
        String::new(),
        dollars(frame.list_micros),
    ]);
    let done = bar(i128::from(frame.second), i128::from(frame.seconds), 40);
    let mut lines = table.lines();
    lines.push(format!("{done} {:>2} of {} s", frame.second, frame.seconds));
    lines
}

/// The same in one line, where nothing can be redrawn.
#[must_use]
pub fn frame_line(frame: &Frame) -> String {
    let sandboxes: Vec<String> = frame
        .sandboxes
        .iter()
        .map(|live| format!("{} {} {} m {}", live.name, live.state, live.millicores, dollars(live.list_micros)))
        .collect();
    format!("{:>2} s  {}  |  all {}", frame.second, sandboxes.join("  |  "), dollars(frame.list_micros))
}

/// The tab at the end: by sandbox and by resource, and what is left of the free hours.
#[must_use]
pub fn statement(by_sandbox: &Costs, by_resource: &Costs, free_used_ms: i64, free_left_ms: i64) -> Vec<String> {
    let mut lines = vec!["The tab".to_owned()];
    lines.extend(costs(by_sandbox, "sandbox"));
    lines.extend(costs(by_resource, "resource"));
    lines.push(format!(
        "Free hours: {} used, {} left",
        thousandths(i128::from(free_used_ms), "s"),
        thousandths(i128::from(free_left_ms).saturating_div(3_600), "h"),
    ));
    lines
}

fn costs(costs: &Costs, group: &str) -> Vec<String> {
    let counted = if group == "sandbox" { "CPU billed" } else { "quantity" };
    let columns = [counted, "list", "free hours", "to pay"].map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[(group, Align::Left)], columns.as_slice()].concat());
    let cells = |name: &str, quantity: String, amounts: Amounts| {
        let shown = [amounts.list_micros, amounts.free_micros.saturating_neg(), amounts.net_micros].map(dollars);
        [name.to_owned(), quantity].into_iter().chain(shown).collect()
    };
    for row in &costs.rows {
        let name = row.sandbox.as_deref().or(row.resource.as_deref()).unwrap_or("-");
        table.row(cells(name, quantity(row), row.amounts));
    }
    table.footing(cells("total", String::new(), costs.total));
    table.lines()
}

/// What a row counts, in the unit that fits half a minute.
fn quantity(row: &CostRow) -> String {
    let number = |text: &str| text.parse::<i128>().unwrap_or(0);
    let gib_seconds = |mib_ms: &str| thousandths(number(mib_ms).div_euclid(1_024), "GiB-s");
    match row.resource.as_deref() {
        Some("memory") => gib_seconds(&row.usage.memory_mib_ms),
        Some("storage") => gib_seconds(&row.usage.storage_mib_ms),
        Some(_) | None => thousandths(number(&row.usage.cpu_us).div_euclid(1_000), "vCPU-s"),
    }
}

/// How an event is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something was done.
    Done,
    /// Something was refused, as it should be.
    Refused,
    /// Something to know.
    Note,
}

impl Mark {
    fn sign(self) -> &'static str {
        match self {
            Self::Done => "✓",
            Self::Refused => "✗",
            Self::Note => "·",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Done => "\x1b[32m",
            Self::Refused => "\x1b[33m",
            Self::Note => "\x1b[36m",
        }
    }
}

/// Where it is shown.
#[derive(Debug)]
pub struct Screen<W: Write> {
    out: W,
    terminal: bool,
    live: Vec<String>,
}

impl<W: Write> Screen<W> {
    /// A screen that redraws if `terminal`, and prints plain lines else.
    pub fn new(out: W, terminal: bool) -> Self {
        Self { out, terminal, live: Vec::new() }
    }

    /// Whether it redraws.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints lines that stay, above the live table.
    pub fn lines(&mut self, lines: &[String]) -> std::io::Result<()> {
        self.wipe()?;
        for line in lines {
            writeln!(self.out, "{line}")?;
        }
        let live = std::mem::take(&mut self.live);
        self.draw(live)
    }

    /// Prints an event.
    pub fn event(&mut self, mark: Mark, text: &str) -> std::io::Result<()> {
        let sign = mark.sign();
        let sign = if self.terminal { format!("{}{sign}\x1b[0m", mark.colour()) } else { sign.to_owned() };
        self.lines(&[format!("{sign} {text}")])
    }

    /// Shows a frame: in place on a terminal, one line each five seconds else.
    pub fn frame(&mut self, frame: &Frame) -> std::io::Result<()> {
        if self.terminal {
            self.wipe()?;
            self.draw(frame_lines(frame))
        } else if frame.second.rem_euclid(5) == 0 {
            self.lines(&[frame_line(frame)])
        } else {
            Ok(())
        }
    }

    /// Takes the live table away.
    pub fn close(&mut self) -> std::io::Result<()> {
        self.wipe()?;
        self.live.clear();
        self.out.flush()
    }

    /// Moves to where the live table begins and clears from there.
    fn wipe(&mut self) -> std::io::Result<()> {
        if self.live.is_empty() { Ok(()) } else { write!(self.out, "\x1b[{}A\x1b[J", self.live.len()) }
    }

    fn draw(&mut self, lines: Vec<String>) -> std::io::Result<()> {
        for line in &lines {
            writeln!(self.out, "{line}")?;
        }
        self.live = lines;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Live, Mark, Screen, frame_line, frame_lines, statement};
    use crate::cli::demo::client::{Amounts, CostRow, Costs, Usage};

    fn frame() -> Frame {
        let live = |name: &str, state, vcpus, memory_mib, millicores, disk_mib, list_micros| Live {
            name: name.to_owned(),
            state,
            vcpus,
            memory_mib,
            millicores,
            disk_mib,
            list_micros,
        };
        Frame {
            second: 15,
            seconds: 30,
            sandboxes: vec![
                live("busy", "running", 2, 4_096, 850, 31, 217),
                live("bursty", "paused", 1, 1_024, 0, 12, 18),
            ],
            list_micros: 235,
            net_micros: 1,
        }
    }

    #[test]
    fn the_live_table() {
        insta::assert_snapshot!(frame_lines(&frame()).join("\n"), @r"
        ┌─────────┬─────────┬───────────────────┬────────────┬───────┬────────┬─────────────┐
        │ sandbox │ state   │             shape │ CPU now    │       │   disk │ cost so far │
        ├─────────┼─────────┼───────────────────┼────────────┼───────┼────────┼─────────────┤
        │ busy    │ running │ 2 vCPU, 4,096 MiB │ ████▎      │ 850 m │ 31 MiB │   $0.000217 │
        │ bursty  │ paused  │ 1 vCPU, 1,024 MiB │            │   0 m │ 12 MiB │   $0.000018 │
        ├─────────┼─────────┼───────────────────┼────────────┼───────┼────────┼─────────────┤
        │ all     │         │  $0.000001 to pay │            │       │        │   $0.000235 │
        └─────────┴─────────┴───────────────────┴────────────┴───────┴────────┴─────────────┘
        ████████████████████                     15 of 30 s
        ");
        insta::assert_snapshot!(
            frame_line(&frame()),
            @"15 s  busy running 850 m $0.000217  |  bursty paused 0 m $0.000018  |  all $0.000235"
        );
    }

    #[test]
    fn the_statement() {
        let row = |sandbox: Option<&str>, resource: Option<&str>, list_micros, free_micros| CostRow {
            sandbox: sandbox.map(str::to_owned),
            resource: resource.map(str::to_owned),
            usage: Usage {
                cpu_us: "12345678".to_owned(),
                memory_mib_ms: "0".to_owned(),
                storage_mib_ms: "1048576".to_owned(),
            },
            amounts: Amounts { list_micros, free_micros, net_micros: list_micros - free_micros },
        };
        let total = Amounts { list_micros: 235, free_micros: 234, net_micros: 1 };
        let by_sandbox =
            Costs { rows: vec![row(Some("busy"), None, 217, 217), row(Some("bursty"), None, 18, 17)], total };
        let by_resource =
            Costs { rows: vec![row(None, Some("cpu"), 200, 200), row(None, Some("storage"), 35, 34)], total };
        let lines = statement(&by_sandbox, &by_resource, 61_234, 179_938_766);
        insta::assert_snapshot!(lines.join("\n"), @r"
        The tab
        ┌─────────┬───────────────┬───────────┬────────────┬───────────┐
        │ sandbox │    CPU billed │      list │ free hours │    to pay │
        ├─────────┼───────────────┼───────────┼────────────┼───────────┤
        │ busy    │ 12.345 vCPU-s │ $0.000217 │ -$0.000217 │ $0.000000 │
        │ bursty  │ 12.345 vCPU-s │ $0.000018 │ -$0.000017 │ $0.000001 │
        ├─────────┼───────────────┼───────────┼────────────┼───────────┤
        │ total   │               │ $0.000235 │ -$0.000234 │ $0.000001 │
        └─────────┴───────────────┴───────────┴────────────┴───────────┘
        ┌──────────┬───────────────┬───────────┬────────────┬───────────┐
        │ resource │      quantity │      list │ free hours │    to pay │
        ├──────────┼───────────────┼───────────┼────────────┼───────────┤
        │ cpu      │ 12.345 vCPU-s │ $0.000200 │ -$0.000200 │ $0.000000 │
        │ storage  │   1.024 GiB-s │ $0.000035 │ -$0.000034 │ $0.000001 │
        ├──────────┼───────────────┼───────────┼────────────┼───────────┤
        │ total    │               │ $0.000235 │ -$0.000234 │ $0.000001 │
        └──────────┴───────────────┴───────────┴────────────┴───────────┘
        Free hours: 61.234 s used, 49.982 h left
        ");
    }

    #[test]
    fn a_terminal_is_redrawn_and_a_file_is_not() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, true);
        screen.frame(&frame()).unwrap();
        screen.event(Mark::Done, "done").unwrap();
        screen.close().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("\x1b[9A\x1b[J").count(), 2, "{text:?}");
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, false);
        screen.frame(&frame()).unwrap();
        screen.event(Mark::Refused, "no").unwrap();
        screen.close().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\x1b') && text.lines().count() == 2, "{text:?}");
    }
}
