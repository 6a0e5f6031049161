//! What an invoice looks like: where its parts stand on the first page, and how they go on.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "places on a sheet are at most some ten thousand, and texts are bounded where they come in"
)]

use super::super::ReportError;
use super::super::annex::Row;
use super::super::sheet::{Annex, Sheet};
use super::fonts::Weight;
use super::paper::{HEIGHT, INNER, Mark, Paper, SIDE, Stand, leading};
use super::table::{Cells, Column, Table};
use super::text::{Colour, Len, Style};

pub(super) const INK: Colour = Colour(0x16, 0x18, 0x1d);
pub(super) const SOFT: Colour = Colour(0x5c, 0x63, 0x70);
pub(super) const RULE: Colour = Colour(0xd9, 0xdc, 0xe2);
pub(super) const WASH: Colour = Colour(0xee, 0xf0, 0xf4);
const BRAND: Colour = Colour(0x2f, 0x5b, 0xd7);
const BRAND_SOFT: Colour = Colour(0xb4, 0xc5, 0xf2);
const AMBER: Colour = Colour(0xb4, 0x53, 0x09);
const WHITE: Colour = Colour(0xff, 0xff, 0xff);

const BODY: Style = Style { weight: Weight::Regular, size: 900, colour: INK };
const SMALL: Style = Style { weight: Weight::Regular, size: 800, colour: SOFT };
const LABEL: Style = Style { weight: Weight::Semibold, size: 750, colour: SOFT };
const HEADING: Style = Style { weight: Weight::Semibold, size: 1_200, colour: INK };

const LINES: [Column; 4] = [
    Column { title: "Item", width: 21_428, stand: Stand::Start },
    Column { title: "Quantity", width: 12_900, stand: Stand::Right },
    Column { title: "Unit price, USD", width: 7_200, stand: Stand::Right },
    Column { title: "Amount, USD", width: 8_000, stand: Stand::Right },
];

/// The columns of the annex; what a row is of has the first.
const fn shares(of: &'static str) -> [Column; 5] {
    [
        Column { title: of, width: 18_328, stand: Stand::Left },
        Column { title: "vCPU-hours", width: 7_800, stand: Stand::Right },
        Column { title: "List, USD", width: 7_800, stand: Stand::Right },
        Column { title: "Free, USD", width: 7_800, stand: Stand::Right },
        Column { title: "To pay, USD", width: 7_800, stand: Stand::Right },
    ]
}

/// All of it.
pub(super) fn lay_out(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    head(paper, sheet)?;
    lines(paper, sheet)?;
    sums(paper, sheet)?;
    notes(paper, sheet)?;
    if let Some(annex) = &sheet.annex {
        paper.turn();
        chart(paper, annex)?;
        table(paper, "Cost by day", &shares("Day"), &annex.days, annex)?;
        paper.skip(2_000);
        // A table that only begins on a page is hard to read: its heading and a few rows have to fit.
        paper.need(9_000);
        heading(paper, "Cost by sandbox")?;
        table(paper, "Cost by sandbox", &shares("Sandbox"), &annex.sandboxes, annex)?;
    }
    footers(paper, sheet)
}

/// Who sends it and what it is; who gets it, number and date, and what is due.
fn head(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    let (left, right) = (28_000, INNER - 28_000);
    let top = paper.y;
    let logo = Style { weight: Weight::Semibold, size: 1_500, colour: INK };
    let mut y = top;
    if !sheet.seller.logo().is_empty() {
        paper.mark(Mark::Rect { x: SIDE, y: top + 300, width: 500, height: 1_500, radius: 150, colour: BRAND });
        y = paper.text(sheet.seller.logo(), logo, (SIDE + 1_100, top, left - 2_000), Stand::Left)?;
        y = y.saturating_add(200);
    }
    for text in [&sheet.seller.address, &sheet.seller.tax_id] {
        if !text.is_empty() {
            y = paper.text(text, SMALL, (SIDE, y, left), Stand::Start)?;
        }
    }
    let large = Style { weight: Weight::Semibold, size: 2_200, colour: INK };
    let title = paper.setter.line(sheet.heading, large)?;
    let width = title.width;
    let mut beside = paper.put(vec![title], SIDE + left, top - 500, right, Stand::Right);
    if let Some(mark) = sheet.mark {
        let style = Style { weight: Weight::Semibold, size: 800, colour: WHITE };
        let line = paper.setter.line(mark, style)?;
        let (wide, x) = (line.width + 1_200, SIDE + INNER - width - line.width - 2_000);
        paper.mark(Mark::Rect { x, y: top + 300, width: wide, height: 1_500, radius: 400, colour: AMBER });
        paper.put(vec![line], x + 600, top + 490, wide, Stand::Left);
    }
    beside = paper.text(&sheet.month, SMALL, (SIDE + left, beside, right), Stand::Right)?;
    paper.y = y.max(beside).saturating_add(2_000);
    addressee(paper, sheet)
}

fn addressee(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    let top = paper.y;
    let left = 26_500;
    let name = Style { weight: Weight::Semibold, size: 1_100, colour: INK };
    let mut y = paper.text("Billed to", LABEL, (SIDE, top, left), Stand::Left)?.saturating_add(200);
    y = paper.text(&sheet.to, name, (SIDE, y, left), Stand::Left)?;
    let (x, wide) = (SIDE + left + 1_500, INNER - left - 1_500);
    let label = 5_200;
    let mut beside = top;
    for (name, text) in &sheet.facts {
        paper.text(name, SMALL, (x, beside, label), Stand::Left)?;
        beside = paper.text(text, BODY, (x + label, beside, wide - label), Stand::Left)?.max(beside + leading(BODY));
    }
    paper.y = y.max(beside).saturating_add(1_200);
    let due = Style { weight: Weight::Semibold, size: 1_500, colour: INK };
    let (box_top, height) = (paper.y, 3_400);
    paper.mark(Mark::Rect { x: SIDE, y: box_top, width: INNER, height, radius: 500, colour: WASH });
    paper.text(sheet.due_name, BODY, (SIDE + 1_400, box_top + 1_070, left), Stand::Left)?;
    paper.text(&sheet.due, due, (SIDE, box_top + 650, INNER - 1_400), Stand::Right)?;
    paper.skip(height + 1_600);
    Ok(())
}

fn heading(paper: &mut Paper<'_>, text: &str) -> Result<(), ReportError> {
    paper.y = paper.text(text, HEADING, (SIDE, paper.y, INNER), Stand::Left)?;
    paper.skip(600);
    Ok(())
}

fn lines(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    let table = Table { x: SIDE, columns: &LINES, style: BODY, caption: "Charges" };
    table.head(paper)?;
    for line in &sheet.lines {
        let texts = vec![line.title.as_str(), &line.quantity, &line.price, &line.amount];
        table.row(paper, &Cells { texts, detail: &line.detail })?;
    }
    if sheet.lines.is_empty() {
        table.row(paper, &Cells { texts: vec![&sheet.nothing], detail: "" })?;
    }
    Ok(())
}

/// The sums, kept together on one page.
fn sums(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    let (x, width) = (SIDE + INNER - 24_000, 24_000);
    let due = Style { weight: Weight::Semibold, size: 1_200, colour: INK };
    let count = Len::try_from(sheet.sums.len()).unwrap_or(0);
    paper.need(count.saturating_mul(leading(BODY) + 500).saturating_add(leading(due) + 2_000));
    paper.skip(700);
    for (name, amount) in &sheet.sums {
        paper.text(name, BODY, (x, paper.y, width), Stand::Left)?;
        paper.y = paper.text(amount, BODY, (x, paper.y, width), Stand::Right)?;
        paper.skip(300);
    }
    paper.skip(200);
    paper.rule(x, width, 100, INK);
    paper.skip(600);
    paper.text(sheet.due_name, due, (x, paper.y, width), Stand::Left)?;
    paper.y = paper.text(&sheet.due, due, (x, paper.y, width), Stand::Right)?;
    Ok(())
}

fn notes(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    for (name, text) in &sheet.notes {
        paper.skip(1_400);
        paper.need(leading(LABEL) + 2 * leading(BODY));
        paper.flow(name, LABEL, SIDE, INNER)?;
        paper.skip(200);
        paper.flow(text, BODY, SIDE, INNER)?;
    }
    if !sheet.seller.footer.trim().is_empty() {
        paper.skip(1_200);
        paper.flow(&sheet.seller.footer, SMALL, SIDE, INNER)?;
    }
    Ok(())
}

fn chart(paper: &mut Paper<'_>, annex: &Annex<'_>) -> Result<(), ReportError> {
    heading(paper, "Cost by day")?;
    let height = 9_000;
    let Some(chart) = annex.chart(INNER, height) else { return Ok(()) };
    let most = format!("Highest day: USD {} at list price", chart.most);
    let freed = chart.bars.iter().any(|bar| bar.free > 0);
    let text = if freed { format!("{most}. Pale: paid by free hours.") } else { most };
    paper.y = paper.text(&text, SMALL, (SIDE, paper.y, INNER), Stand::Left)?;
    paper.skip(500);
    let base = paper.y.saturating_add(height);
    for bar in &chart.bars {
        let (x, width, top) = (SIDE.saturating_add(bar.x), bar.width, base.saturating_sub(bar.net));
        paper.mark(Mark::Rect { x, y: top, width, height: bar.net, radius: 0, colour: BRAND });
        let above = top.saturating_sub(bar.free);
        paper.mark(Mark::Rect { x, y: above, width, height: bar.free, radius: 0, colour: BRAND_SOFT });
    }
    paper.y = base;
    paper.rule(SIDE, INNER, 75, INK);
    paper.skip(300);
    let style = Style { size: 700, ..SMALL };
    for (date, x) in annex.ticks(INNER) {
        let line = paper.setter.line(&date.to_string(), style)?;
        let from = SIDE.saturating_add(x).saturating_sub(line.width / 2);
        paper.put(vec![line], from, paper.y, 0, Stand::Left);
    }
    paper.skip(leading(style) + 1_600);
    Ok(())
}

fn table(
    paper: &mut Paper<'_>,
    caption: &str,
    columns: &[Column; 5],
    rows: &[Row],
    annex: &Annex<'_>,
) -> Result<(), ReportError> {
    let style = Style { size: 800, ..BODY };
    let table = Table { x: SIDE, columns, style, caption };
    table.head(paper)?;
    let cells = |row: &'_ Row| -> [String; 5] {
        let Row { of, cpu, list, free, net } = row.clone();
        [of, cpu, list, free, net]
    };
    for row in rows {
        let texts = cells(row);
        table.row(paper, &Cells { texts: texts.iter().map(String::as_str).collect(), detail: "" })?;
    }
    let texts = cells(&annex.total);
    table.sum(paper, &Cells { texts: texts.iter().map(String::as_str).collect(), detail: "" })
}

/// What stands at the foot of every page: which document this is, and which page of how many.
fn footers(paper: &mut Paper<'_>, sheet: &Sheet<'_>) -> Result<(), ReportError> {
    let text = format!("{} {}", sheet.heading, sheet.call);
    let count = paper.pages.len();
    let name = paper.setter.fit(&sheet.to, SMALL, INNER / 2)?;
    let notice = "□ stands for a character that this document has no letter shape for; it is whole when copied.";
    let notice = if paper.setter.boxes { Some(paper.setter.line(notice, Style { size: 650, ..SMALL })?) } else { None };
    let marks = |paper: &mut Paper<'_>, page: usize| -> Result<Vec<Mark>, ReportError> {
        let of = paper.setter.line(&format!("Page {page} of {count}"), SMALL)?;
        let what = paper.setter.line(&text, SMALL)?;
        let y = HEIGHT - 3_600;
        let middle = SIDE + (INNER - name.width) / 2;
        let mut marks = vec![
            Mark::Rect { x: SIDE, y: y - 1_400, width: INNER, height: 50, radius: 0, colour: RULE },
            Mark::Text { x: SIDE, y, line: what.clone() },
            Mark::Text { x: middle.max(SIDE + what.width + 800), y, line: name.clone() },
            Mark::Text { x: SIDE + INNER - of.width, y, line: of },
        ];
        marks.extend(notice.clone().map(|line| Mark::Text { x: SIDE, y: y + 1_100, line }));
        Ok(marks)
    };
    for page in 0..count {
        let more = marks(paper, page.saturating_add(1))?;
        if let Some(page) = paper.pages.get_mut(page) {
            page.extend(more);
        }
    }
    Ok(())
}
