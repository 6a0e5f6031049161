//! An invoice as PDF/A-2b, for paper and for archives: the same invoice gives the same bytes, on any machine.
//!
//! Reading order: `text` (lines of glyphs), `paper` (pages of marks), `table`, `layout` (what an invoice looks
//! like), `write` (bytes). Layout is in whole hundredths of a point; only the last step has floating point.

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
use super::{Document, ReportError};

/// The file.
pub fn render(document: &Document<'_>) -> Result<Vec<u8>, ReportError> {
    draw(&sheet::of(document)?)
}

/// The file of any sheet.
pub(super) fn draw(sheet: &Sheet<'_>) -> Result<Vec<u8>, ReportError> {
    let mut paper = Paper::new(Typesetter::new(Fonts::load(&sheet.seller.fonts)?));
    layout::lay_out(&mut paper, sheet)?;
    let about = write::About {
        title: format!("{} {}, {}", sheet.heading, sheet.call, sheet.account),
        author: sheet.seller.name.clone(),
        id: format!("{} {} {} {}", sheet.heading, sheet.account, sheet.month, sheet.call),
        at: sheet.at,
    };
    write::write(&paper.pages, &paper.setter.fonts, &about)
}
