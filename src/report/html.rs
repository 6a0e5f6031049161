//! An invoice as one self-contained page, for screens and for paper. Everything that people wrote is escaped.

use minijinja::{Environment, Value, context};

use super::annex::{self, Row};
use super::{Document, ReportError, dollars, dollars_of_cents, show_day, show_month, shown};
use crate::domain::Overflow;
use crate::domain::invoice::Status;
use crate::domain::money::Micros;

/// The name ends with `.html`, so that the template engine escapes.
const NAME: &str = "invoice.html";
const TEMPLATE: &str = include_str!("../../reports/invoice.html");

/// The page.
pub fn render(document: &Document<'_>) -> Result<Vec<u8>, ReportError> {
    let mut environment = Environment::new();
    let broken = |error: minijinja::Error| ReportError::Broken(error.to_string());
    environment.add_template(NAME, TEMPLATE).map_err(broken)?;
    let template = environment.get_template(NAME).map_err(broken)?;
    Ok(template.render(values(document)?).map_err(broken)?.into_bytes())
}

fn values(document: &Document<'_>) -> Result<Value, Overflow> {
    let Document { invoice, breakdown, seller } = document;
    let (heading, date) = match invoice.status {
        Status::Draft => ("Invoice", None),
        Status::Nothing => ("Statement", None),
        Status::Final { at, .. } => ("Invoice", Some(show_day(at.day()))),
    };
    let lines: Vec<Value> = shown(invoice)?
        .into_iter()
        .map(|line| {
            context! { title => line.title, detail => line.detail, quantity => line.quantity, price => line.price, amount => line.amount }
        })
        .collect();
    let seller = context! {
        name => seller.name.as_str(), address => seller.address.as_str(), tax_id => seller.tax_id.as_str(),
        payment_terms => seller.payment_terms.as_str(), footer => seller.footer.as_str(),
    };
    let rows = |rows: Vec<Row>| -> Vec<Value> {
        rows.into_iter()
            .map(|row| context! { of => row.of, cpu => row.cpu, list => row.list, free => row.free, net => row.net })
            .collect()
    };
    let bars: Vec<Value> = annex::bars(breakdown)
        .into_iter()
        .map(|bar| context! { x => bar.x, y => bar.y, width => bar.width, height => bar.height, title => bar.title })
        .collect();
    Ok(context! {
        heading,
        draft => invoice.status == Status::Draft,
        month => show_month(invoice.month),
        name => invoice.name.as_str(),
        account => invoice.account.as_str(),
        number => invoice.number().map(|number| number.to_string()),
        date,
        lines,
        seller,
        list => dollars(invoice.list.count()),
        free => dollars(invoice.free.count().saturating_neg()),
        credit => (invoice.credit != Micros::ZERO).then(|| dollars(invoice.credit.count().saturating_neg())),
        tax => (invoice.tax != Micros::ZERO).then(|| dollars(invoice.tax.count())),
        total => dollars(invoice.total.count()),
        due => dollars_of_cents(invoice.due_cents()),
        chart => context! { width => annex::CHART_WIDTH, height => annex::CHART_HEIGHT, bars },
        days => rows(annex::days(breakdown)?),
        sandboxes => rows(annex::sandboxes(breakdown)?),
    })
}
