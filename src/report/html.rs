//! An invoice as one self-contained page, for screens and for paper. Everything that people wrote is escaped.

use minijinja::{Environment, Value, context};

use super::annex::Row;
use super::sheet::{Annex, Sheet};
use super::{Document, ReportError, sheet};

/// The name ends with `.html`, so that the template engine escapes.
const NAME: &str = "invoice.html";
const TEMPLATE: &str = include_str!("../../reports/invoice.html");

/// The chart's width, in its own units.
const CHART_WIDTH: i64 = 7_440;
/// The chart's height, likewise.
const CHART_HEIGHT: i64 = 1_000;

/// The page.
pub fn render(document: &Document<'_>) -> Result<Vec<u8>, ReportError> {
    draw(&sheet::of(document)?)
}

/// The page of any sheet.
pub(super) fn draw(sheet: &Sheet<'_>) -> Result<Vec<u8>, ReportError> {
    page(NAME, TEMPLATE, &values(sheet))
}

/// A page from a template; its name ends with `.html`.
pub(super) fn page(name: &str, template: &str, values: &Value) -> Result<Vec<u8>, ReportError> {
    let mut environment = Environment::new();
    let broken = |error: minijinja::Error| ReportError::Broken(error.to_string());
    environment.add_template(name, template).map_err(broken)?;
    let template = environment.get_template(name).map_err(broken)?;
    Ok(template.render(values).map_err(broken)?.into_bytes())
}

fn row(row: &Row) -> Value {
    let Row { of, cpu, list, free, net } = row;
    context! { of, cpu, list, free, net }
}

fn values(sheet: &Sheet<'_>) -> Value {
    let lines: Vec<Value> = sheet
        .lines
        .iter()
        .map(|line| {
            let (title, detail, quantity, price, amount) =
                (&line.title, &line.detail, &line.quantity, &line.price, &line.amount);
            context! { title, detail, quantity, price, amount }
        })
        .collect();
    let pairs = |pairs: &[(&'static str, String)]| -> Vec<Value> {
        pairs.iter().map(|(name, text)| context! { name => *name, text }).collect()
    };
    let sums: Vec<Value> = sheet.sums.iter().map(|(name, text)| context! { name, text }).collect();
    let seller = context! {
        logo => sheet.seller.logo(), name => sheet.seller.name.as_str(), address => sheet.seller.address.as_str(),
        tax_id => sheet.seller.tax_id.as_str(), footer => sheet.seller.footer.as_str(),
    };
    let annex = sheet.annex.as_ref().map(|annex| {
        let rows = |rows: &[Row]| -> Vec<Value> { rows.iter().map(row).collect() };
        context! { days => rows(&annex.days), sandboxes => rows(&annex.sandboxes), total => row(&annex.total) }
    });
    context! {
        heading => sheet.heading,
        mark => sheet.mark,
        month => sheet.month.as_str(),
        to => sheet.to.as_str(),
        account => sheet.account,
        call => sheet.call.as_str(),
        facts => pairs(&sheet.facts),
        lines,
        nothing => sheet.nothing.as_str(),
        seller,
        sums,
        due_name => sheet.due_name,
        due => sheet.due.as_str(),
        notes => pairs(&sheet.notes),
        chart => sheet.annex.as_ref().and_then(chart),
        annex,
    }
}

fn chart(annex: &Annex<'_>) -> Option<Value> {
    let chart = annex.chart(CHART_WIDTH, CHART_HEIGHT)?;
    let bars: Vec<Value> = chart
        .bars
        .iter()
        .map(|bar| {
            let top = CHART_HEIGHT.saturating_sub(bar.net);
            let (x, width, net, free) = (bar.x, bar.width, bar.net, bar.free);
            context! { x, width, net, free, top, above => top.saturating_sub(free), title => bar.title.as_str() }
        })
        .collect();
    let ticks: Vec<Value> = annex.ticks(CHART_WIDTH).into_iter().map(|(date, x)| context! { date, x }).collect();
    Some(context! { width => CHART_WIDTH, height => CHART_HEIGHT, bars, ticks, most => chart.most })
}
