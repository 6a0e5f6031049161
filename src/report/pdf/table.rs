//! A table over pages: its head stands again at the top of each, and no row is torn apart.

use super::super::ReportError;
use super::fonts::Weight;
use super::layout::{INK, RULE, SOFT, WASH};
use super::paper::{Paper, Stand, leading};
use super::text::{Len, Line, Style};

/// The space above and below a row's text.
const PAD: Len = 320;
/// The space between columns.
const GAP: Len = 900;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Its head.
    pub(super) title: &'static str,
    /// Its width, the gap to the next one included.
    pub(super) width: Len,
    /// How its cells stand.
    pub(super) stand: Stand,
}

/// A row: a text a column, and a smaller one under the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells<'a> {
    /// One a column.
    pub(super) texts: Vec<&'a str>,
    /// Under the first; may be empty.
    pub(super) detail: &'a str,
}

/// A table.
pub(super) struct Table<'a> {
    /// Where it begins.
    pub(super) x: Len,
    /// Its columns.
    pub(super) columns: &'a [Column],
    /// How its cells look.
    pub(super) style: Style,
    /// What each page's head begins with: which table this is.
    pub(super) caption: &'a str,
}

impl Table<'_> {
    fn width(&self) -> Len {
        self.columns.iter().map(|column| column.width).sum()
    }

    fn head_style(&self) -> Style {
        Style { weight: Weight::Semibold, size: self.style.size.saturating_mul(88) / 100, colour: SOFT }
    }

    /// The head, at the page's place.
    pub(super) fn head(&self, paper: &mut Paper<'_>) -> Result<(), ReportError> {
        let style = self.head_style();
        let mut x = self.x;
        for column in self.columns {
            let width = column.width.saturating_sub(GAP);
            // The gap is to the left of what stands at the right.
            let from = if column.stand == Stand::Right { x.saturating_add(GAP) } else { x };
            let line = paper.setter.line(column.title, style)?;
            paper.put(vec![line], from, paper.y, width, column.stand);
            x = x.saturating_add(column.width);
        }
        paper.skip(leading(style).saturating_add(PAD));
        paper.rule(self.x, self.width(), 100, INK);
        paper.skip(100);
        Ok(())
    }

    /// A row, on the next page if it does not fit, under a head of its own there.
    pub(super) fn row(&self, paper: &mut Paper<'_>, cells: &Cells<'_>) -> Result<(), ReportError> {
        self.ruled(paper, cells, self.style, RULE)
    }

    /// A row that sums up.
    pub(super) fn sum(&self, paper: &mut Paper<'_>, cells: &Cells<'_>) -> Result<(), ReportError> {
        self.ruled(paper, cells, Style { weight: Weight::Semibold, ..self.style }, WASH)
    }

    fn ruled(
        &self,
        paper: &mut Paper<'_>,
        cells: &Cells<'_>,
        style: Style,
        rule: super::text::Colour,
    ) -> Result<(), ReportError> {
        let mut set: Vec<Vec<Line>> = Vec::new();
        for (place, (column, text)) in self.columns.iter().zip(&cells.texts).enumerate() {
            let width = column.width.saturating_sub(GAP);
            let mut lines = paper.setter.wrap(text, style, width, usize::MAX)?;
            if place == 0 && !cells.detail.is_empty() {
                let small = Style { weight: Weight::Regular, size: style.size.saturating_mul(86) / 100, colour: SOFT };
                lines.extend(paper.setter.wrap(cells.detail, small, width, usize::MAX)?);
            }
            set.push(lines);
        }
        let tall = |lines: &Vec<Line>| lines.iter().map(|line| leading(line.style)).sum::<Len>();
        let height = set.iter().map(tall).max().unwrap_or(0);
        if paper.need(height.saturating_add(PAD.saturating_mul(2)).saturating_add(50)) {
            self.again(paper)?;
        }
        let (top, mut x) = (paper.y.saturating_add(PAD), self.x);
        for (column, lines) in self.columns.iter().zip(set) {
            let width = column.width.saturating_sub(GAP);
            let from = if column.stand == Stand::Right { x.saturating_add(GAP) } else { x };
            paper.put(lines, from, top, width, column.stand);
            x = x.saturating_add(column.width);
        }
        paper.skip(height.saturating_add(PAD.saturating_mul(2)));
        paper.rule(self.x, self.width(), 50, rule);
        paper.skip(50);
        Ok(())
    }

    fn again(&self, paper: &mut Paper<'_>) -> Result<(), ReportError> {
        let style = Style { weight: Weight::Semibold, size: 1_000, colour: INK };
        let line = paper.setter.line(&format!("{}, continued", self.caption), style)?;
        paper.y = paper.put(vec![line], self.x, paper.y, self.width(), Stand::Left);
        paper.skip(700);
        self.head(paper)
    }
}
