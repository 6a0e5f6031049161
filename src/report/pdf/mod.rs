//! An invoice as PDF/A-2b, for paper and for archives: the same invoice gives the same bytes, on any machine.
//!
//! Reading order: [`text`] (lines of glyphs), [`paper`] (pages of marks), [`table`], [`layout`] (what an invoice looks
//! like), [`write`](mod@write) (bytes). Layout is in whole hundredths of a point; only the last step has floating point.

mod fonts;
mod layout;
mod paper;
mod table;
mod text;
mod write;

pub use fonts::is_font;

use fonts::Fonts;
use paper::Paper;
use text::Typesetter;

use super::sheet::{self, Sheet};
use super::{Document, ReportError, show_month};
use crate::domain::invoice::Status;

/// The file.
pub fn render(document: &Document<'_>) -> Result<Vec<u8>, ReportError> {
    let sheet = sheet::of(document)?;
    let mut paper = Paper::new(Typesetter::new(Fonts::load(&document.seller.fonts)?));
    layout::lay_out(&mut paper, &sheet, document)?;
    write::write(&paper.pages, &paper.setter.fonts, &about(&sheet, document))
}

fn about(sheet: &Sheet<'_>, document: &Document<'_>) -> write::About {
    let invoice = document.invoice;
    let (number, at) = match invoice.status {
        Status::Final { number, at } => (number.to_string(), at),
        Status::Draft | Status::Nothing => (sheet.heading.to_lowercase(), invoice.month.span().start),
    };
    write::About {
        title: format!("{} {}, {}", sheet.heading, document.invoice.account, sheet.month),
        author: sheet.seller.name.clone(),
        id: format!("{} {} {number}", invoice.account, show_month(invoice.month)),
        at,
    }
}
