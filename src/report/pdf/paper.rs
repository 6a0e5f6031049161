//! Pages: what is drawn where, recorded page by page, so that a page can say how many there are.

use super::super::ReportError;
use super::text::{Colour, Len, Line, Style, Typesetter};

/// The width of an A4 sheet.
pub(super) const WIDTH: Len = 59_528;
/// Its height.
pub(super) const HEIGHT: Len = 84_189;
/// The space to the left and right of what is printed.
pub(super) const SIDE: Len = 5_000;
/// The space above.
const TOP: Len = 4_800;
/// The space below, in which the page's footer stands.
const BOTTOM: Len = 6_200;
/// The width of what is printed.
pub(super) const INNER: Len = WIDTH - 2 * SIDE;

/// Something drawn: places are from the top left corner of the sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A line of text; `y` is its base line.
    Text { x: Len, y: Len, line: Line },
    /// A filled rectangle, with rounded corners if `radius` is above 0.
    Rect { x: Len, y: Len, width: Len, height: Len, radius: Len, colour: Colour },
}

/// How a text stands in its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// From its own side: the left, or the right for what reads from right to left.
    Start,
    /// At the left.
    Left,
    /// At the right.
    Right,
}

/// A document under way: its pages, and how far down the last one is filled.
pub(super) struct Paper<'a> {
    pub(super) setter: Typesetter<'a>,
    pub(super) pages: Vec<Vec<Mark>>,
    /// Where the next thing begins.
    pub(super) y: Len,
}

impl<'a> Paper<'a> {
    pub(super) fn new(setter: Typesetter<'a>) -> Self {
        Self { setter, pages: vec![Vec::new()], y: TOP }
    }

    /// Begins a page.
    pub(super) fn turn(&mut self) {
        self.pages.push(Vec::new());
        self.y = TOP;
    }

    /// Whether so much still fits on the page.
    pub(super) fn fits(&self, height: Len) -> bool {
        self.y.saturating_add(height) <= HEIGHT - BOTTOM
    }

    /// Begins a page unless so much still fits; answers whether it did.
    pub(super) fn need(&mut self, height: Len) -> bool {
        let turns = !self.fits(height);
        if turns {
            self.turn();
        }
        turns
    }

    /// Goes down.
    pub(super) fn skip(&mut self, height: Len) {
        self.y = self.y.saturating_add(height);
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        if let Some(page) = self.pages.last_mut() {
            page.push(mark);
        }
    }

    /// A thin rule over a width, at the place that was reached.
    pub(super) fn rule(&mut self, x: Len, width: Len, height: Len, colour: Colour) {
        let y = self.y;
        self.mark(Mark::Rect { x, y, width, height, radius: 0, colour });
    }

    /// Puts lines below each other from `y` on, and answers where they end. Does not move the page's own place.
    pub(super) fn put(&mut self, lines: Vec<Line>, x: Len, y: Len, width: Len, stand: Stand) -> Len {
        let mut top = y;
        for line in lines {
            let right = match stand {
                Stand::Start => line.rtl,
                Stand::Left => false,
                Stand::Right => true,
            };
            let from = if right { x.saturating_add(width).saturating_sub(line.width) } else { x };
            let (size, height) = (line.style.size, leading(line.style));
            // Half of what a line is higher than its letters stands above them.
            let base =
                top.saturating_add(height.saturating_sub(size) / 2).saturating_add(size.saturating_mul(82) / 100);
            self.mark(Mark::Text { x: from, y: base, line });
            top = top.saturating_add(height);
        }
        top
    }

    /// [`Paper::put`] of a text, broken into lines.
    pub(super) fn text(
        &mut self,
        text: &str,
        style: Style,
        (x, y, width): (Len, Len, Len),
        stand: Stand,
    ) -> Result<Len, ReportError> {
        let lines = self.setter.wrap(text, style, width, usize::MAX)?;
        Ok(self.put(lines, x, y, width, stand))
    }

    /// A long text from the page's place on, over as many pages as it takes.
    pub(super) fn flow(&mut self, text: &str, style: Style, x: Len, width: Len) -> Result<(), ReportError> {
        for line in self.setter.wrap(text, style, width, usize::MAX)? {
            self.need(leading(style));
            self.y = self.put(vec![line], x, self.y, width, Stand::Start);
        }
        Ok(())
    }
}

/// The height of a line.
pub(super) fn leading(style: Style) -> Len {
    style.size.saturating_mul(140) / 100
}
