//! Text to lines of placed glyphs: direction (the Unicode bidirectional algorithm), faces, shaping, and line breaks.
//!
//! Lengths are whole hundredths of a point, advances whole units of the face: the same text gives the same lines on any
//! machine. A line is measured and broken in reading order, then put in visual order.

use std::ops::Range;

use rustybuzz::ttf_parser::Tag;
use rustybuzz::{Direction, Feature, UnicodeBuffer};
use unicode_bidi::{BidiInfo, Level, ParagraphInfo};

use super::super::ReportError;
use super::fonts::{BOX, FaceId, Fonts, Weight};

/// A length: hundredths of a point.
pub(super) type Len = i64;

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8, pub(super) u8, pub(super) u8);

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// How heavy.
    pub(super) weight: Weight,
    /// How large: the em.
    pub(super) size: Len,
    /// Which colour.
    pub(super) colour: Colour,
}

/// A glyph, in units of its face; its text is a range of its run's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glyph {
    pub(super) id: u32,
    pub(super) advance: i32,
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) text: Range<usize>,
}

/// Glyphs of one face, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) face: FaceId,
    pub(super) text: String,
    pub(super) glyphs: Vec<Glyph>,
    pub(super) width: Len,
}

/// A line: runs from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) runs: Vec<Run>,
    pub(super) width: Len,
    /// Whether it reads from right to left.
    pub(super) rtl: bool,
    pub(super) style: Style,
}

/// Sets texts in the faces of a document.
pub(super) struct Typesetter<'a> {
    pub(super) fonts: Fonts<'a>,
    /// Whether a character was drawn as a box.
    pub(super) boxes: bool,
    figures: Feature,
}

fn broken(what: &str) -> ReportError {
    ReportError::Broken(what.to_owned())
}

/// Marks of direction, joiners and the like: they steer, and are not seen.
fn is_silent(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Whether a line may end after a character that is no white space. A hyphen holds: `GiB-hour` is one word.
fn breaks_after(char: char) -> bool {
    matches!(char, '\u{2010}' | '\u{2013}' | '/') || matches!(char, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

impl<'a> Typesetter<'a> {
    pub(super) fn new(fonts: Fonts<'a>) -> Self {
        Self { fonts, boxes: false, figures: Feature::new(Tag::from_bytes(b"tnum"), 1, ..) }
    }

    /// A text as one line, however long.
    pub(super) fn line(&mut self, text: &str, style: Style) -> Result<Line, ReportError> {
        let text = text.replace(['\n', '\r', '\t'], " ");
        let info = BidiInfo::new(&text, None);
        let Some(paragraph) = info.paragraphs.first() else { return Ok(empty(style)) };
        self.set(&info, paragraph, 0..text.len(), style)
    }

    /// A text as lines of at most a width; its own line breaks are kept. Past `lines_max` it ends with an ellipsis.
    pub(super) fn wrap(
        &mut self,
        text: &str,
        style: Style,
        width: Len,
        lines_max: usize,
    ) -> Result<Vec<Line>, ReportError> {
        let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}'], "\n").replace('\t', " ");
        let mut lines = Vec::new();
        for paragraph in text.trim_end().split('\n') {
            let info = BidiInfo::new(paragraph, None);
            let Some(whole) = info.paragraphs.first() else {
                lines.push(empty(style));
                continue;
            };
            for range in self.ranges(paragraph, style, width)? {
                if lines.len() >= lines_max {
                    lines.pop();
                    lines.push(self.line("…", style)?);
                    return Ok(lines);
                }
                lines.push(self.set(&info, whole, range, style)?);
            }
        }
        Ok(lines)
    }

    /// A text as one line of at most a width, cut short with an ellipsis.
    pub(super) fn fit(&mut self, text: &str, style: Style, width: Len) -> Result<Line, ReportError> {
        let whole = self.line(text, style)?;
        if whole.width <= width {
            return Ok(whole);
        }
        let text = text.replace(['\n', '\r', '\t'], " ");
        let room = width.saturating_sub(self.line("…", style)?.width);
        let first = self.ranges(&text, style, room)?.into_iter().next().unwrap_or(0..0);
        self.line(&format!("{}…", text.get(first).unwrap_or_default().trim_end()), style)
    }

    /// Where the lines of a paragraph are, in reading order.
    fn ranges(&mut self, text: &str, style: Style, width: Len) -> Result<Vec<Range<usize>>, ReportError> {
        let mut ranges = Vec::new();
        let (mut start, mut end) = (0, 0);
        let mut used: Len = 0;
        for word in words(text) {
            let shown = text.get(word.clone()).unwrap_or_default();
            let (bare, whole) = (self.measure(shown.trim_end(), style)?, self.measure(shown, style)?);
            if used > 0 && used.saturating_add(bare) > width {
                ranges.push(start..end);
                (start, used) = (word.start, 0);
            }
            if bare > width {
                // A word that is wider than a line is cut wherever it has to be.
                let mut part: Len = 0;
                for (at, char) in shown.char_indices() {
                    let one =
                        self.measure(shown.get(at..at.saturating_add(char.len_utf8())).unwrap_or_default(), style)?;
                    if part > 0 && !char.is_whitespace() && part.saturating_add(one) > width {
                        let cut = word.start.saturating_add(at);
                        ranges.push(start..cut);
                        (start, part) = (cut, 0);
                    }
                    part = part.saturating_add(one);
                }
                used = part;
            } else {
                used = used.saturating_add(whole);
            }
            end = word.end;
        }
        ranges.push(start..end);
        Ok(ranges)
    }

    fn measure(&mut self, text: &str, style: Style) -> Result<Len, ReportError> {
        let mut width: Len = 0;
        for (face, piece) in self.pieces(text, style.weight) {
            width = width.saturating_add(self.shape(face, piece, Direction::LeftToRight, style)?.width);
        }
        Ok(width)
    }

    /// A range of a paragraph as a line, in visual order.
    fn set(
        &mut self,
        info: &BidiInfo<'_>,
        paragraph: &ParagraphInfo,
        range: Range<usize>,
        style: Style,
    ) -> Result<Line, ReportError> {
        let end = range.start.saturating_add(info.text.get(range.clone()).unwrap_or_default().trim_end().len());
        let mut line = Line { rtl: paragraph.level.is_rtl(), ..empty(style) };
        if end <= range.start {
            return Ok(line);
        }
        let (levels, visual) = info.visual_runs(paragraph, range.start..end);
        for part in visual {
            let rtl = levels.get(part.start).is_some_and(Level::is_rtl);
            let direction = if rtl { Direction::RightToLeft } else { Direction::LeftToRight };
            let mut pieces = self.pieces(info.text.get(part).unwrap_or_default(), style.weight);
            if rtl {
                pieces.reverse();
            }
            for (face, piece) in pieces {
                let run = self.shape(face, piece, direction, style)?;
                line.width = line.width.saturating_add(run.width);
                line.runs.push(run);
            }
        }
        Ok(line)
    }

    /// A text as stretches of one face, in reading order; no face: to be drawn as boxes.
    fn pieces<'t>(&self, text: &'t str, weight: Weight) -> Vec<(Option<FaceId>, &'t str)> {
        let mut pieces: Vec<(Option<FaceId>, Range<usize>)> = Vec::new();
        for (at, char) in text.char_indices() {
            let end = at.saturating_add(char.len_utf8());
            let last = pieces.last_mut();
            // What is not seen, spaces and marks over letters stay with what is before them.
            let joins = is_silent(char)
                || matches!(char, ' ' | '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{65f}');
            let face = self.fonts.of(char, weight);
            match last {
                Some((known, range)) if *known == face || (joins && known.is_some_and(|id| self.has(id, char))) => {
                    range.end = end;
                }
                Some((_, range)) if is_silent(char) => range.end = end,
                _ if is_silent(char) => pieces.push((Some(self.fonts.default_of(weight)), at..end)),
                _ => pieces.push((face, at..end)),
            }
        }
        pieces.into_iter().map(|(face, range)| (face, text.get(range).unwrap_or_default())).collect()
    }

    fn has(&self, id: FaceId, char: char) -> bool {
        is_silent(char) || self.fonts.get(id).is_ok_and(|face| face.shaper.glyph_index(char).is_some())
    }

    fn shape(&mut self, face: Option<FaceId>, text: &str, way: Direction, style: Style) -> Result<Run, ReportError> {
        let seen: String = text.chars().filter(|char| !is_silent(*char)).collect();
        let Some(id) = face else { return self.boxes(seen, way, style) };
        let face = &self.fonts.get(id)?.shaper;
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(&seen);
        buffer.guess_segment_properties();
        buffer.set_direction(way);
        let shaped = rustybuzz::shape(face, std::slice::from_ref(&self.figures), buffer);
        let mut starts: Vec<usize> = Vec::with_capacity(shaped.len());
        for info in shaped.glyph_infos() {
            starts.push(usize::try_from(info.cluster).map_err(|_| broken("a text is too long"))?);
        }
        let mut ends: Vec<usize> = starts.clone();
        ends.sort_unstable();
        ends.dedup();
        let mut glyphs = Vec::with_capacity(shaped.len());
        for ((info, place), start) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()).zip(starts) {
            let end = ends.get(ends.partition_point(|end| *end <= start)).copied().unwrap_or(seen.len());
            let (id, advance) = (info.glyph_id, place.x_advance);
            glyphs.push(Glyph { id, advance, x: place.x_offset, y: place.y_offset, text: start..end });
        }
        let width = wide(glyphs.iter().map(|glyph| i64::from(glyph.advance)).sum(), face.units_per_em(), style)?;
        Ok(Run { face: id, text: seen, glyphs, width })
    }

    /// A box for each character.
    fn boxes(&mut self, text: String, way: Direction, style: Style) -> Result<Run, ReportError> {
        self.boxes = true;
        let id = self.fonts.default_of(style.weight);
        let face = &self.fonts.get(id)?.shaper;
        let glyph = face.glyph_index(BOX).ok_or_else(|| broken("no box"))?;
        let advance = i32::from(face.glyph_hor_advance(glyph).unwrap_or_default());
        let place = |(at, char): (usize, char)| {
            let text = at..at.saturating_add(char.len_utf8());
            Glyph { id: u32::from(glyph.0), advance, x: 0, y: 0, text }
        };
        let mut glyphs: Vec<Glyph> = text.char_indices().map(place).collect();
        if way == Direction::RightToLeft {
            glyphs.reverse();
        }
        let sum = glyphs.iter().map(|glyph| i64::from(glyph.advance)).sum();
        let width = wide(sum, face.units_per_em(), style)?;
        Ok(Run { face: id, text, glyphs, width })
    }
}

fn empty(style: Style) -> Line {
    Line { runs: Vec::new(), width: 0, rtl: false, style }
}

fn wide(units: i64, per_em: i32, style: Style) -> Result<Len, ReportError> {
    let scaled = units.checked_mul(style.size).and_then(|scaled| scaled.checked_div(i64::from(per_em)));
    scaled.ok_or_else(|| broken("a text is too wide"))
}

/// Stretches after which a line may end; each has the white space that follows it. Some spaces hold lines together.
fn words(text: &str) -> Vec<Range<usize>> {
    let is_space = |char: char| char.is_whitespace() && !matches!(char, '\u{a0}' | '\u{202f}');
    let mut words = Vec::new();
    let (mut start, mut open) = (0, false);
    for (at, char) in text.char_indices() {
        if open && !is_space(char) {
            words.push(start..at);
            (start, open) = (at, false);
        }
        open = open || is_space(char) || breaks_after(char);
    }
    if start < text.len() {
        words.push(start..text.len());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::fonts::{Fonts, Weight};
    use super::{Colour, Line, Style, Typesetter, words};

    const STYLE: Style = Style { weight: Weight::Regular, size: 1_000, colour: Colour(0, 0, 0) };

    fn text(line: &Line) -> Vec<&str> {
        line.runs.iter().map(|run| run.text.as_str()).collect()
    }

    #[test]
    fn lines_end_between_words_and_only_then_within_one() {
        let mut setter = Typesetter::new(Fonts::load(&[]).unwrap());
        let lines = setter.wrap("one two three\nfour", STYLE, 4_500, 9).unwrap();
        assert_eq!(lines.iter().map(|line| text(line).concat()).collect::<Vec<_>>(), ["one two", "three", "four"]);
        let cut = setter.wrap(&"W".repeat(40), STYLE, 5_000, 99).unwrap();
        assert!(cut.len() > 5 && cut.iter().all(|line| line.width <= 5_000));
        assert_eq!(cut.iter().map(|line| text(line).concat()).collect::<String>(), "W".repeat(40));
        let short = setter.wrap("a b c d e f", STYLE, 1, 3).unwrap();
        assert_eq!(short.iter().map(|line| text(line).concat()).collect::<Vec<_>>(), ["a", "b", "…"]);
        assert_eq!(words("a-b  c/d"), [0..5, 5..7, 7..8]);
    }

    #[test]
    fn what_reads_from_right_to_left_is_set_so() {
        let mut setter = Typesetter::new(Fonts::load(&[]).unwrap());
        let line = setter.line("שלום 12 abc", STYLE).unwrap();
        assert!(line.rtl);
        let shown = text(&line);
        assert_eq!((shown.first(), shown.last().map(|last| last.trim())), (Some(&"abc"), Some("שלום")), "{shown:?}");
        let glyphs = &line.runs.last().unwrap().glyphs;
        assert!(glyphs.windows(2).all(|pair| pair[0].text.start >= pair[1].text.start), "{glyphs:?}");
        assert!(!setter.line("abc שלום", STYLE).unwrap().rtl);
        // Joined letters have other glyphs than single ones.
        let joined = setter.line("بب", STYLE).unwrap();
        let single = setter.line("ب", STYLE).unwrap();
        assert_ne!(joined.runs[0].glyphs[0].id, single.runs[0].glyphs[0].id);
    }

    #[test]
    fn a_character_without_a_glyph_is_a_box_that_knows_its_text() {
        let mut setter = Typesetter::new(Fonts::load(&[]).unwrap());
        assert!(!setter.line("a\u{202e}b", STYLE).unwrap().runs.is_empty() && !setter.boxes);
        let line = setter.line("日本 Acme", STYLE).unwrap();
        assert!(setter.boxes);
        assert_eq!((line.runs[0].text.as_str(), line.runs[0].glyphs.len()), ("日本", 2));
    }
}
