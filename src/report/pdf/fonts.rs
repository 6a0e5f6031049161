//! The faces that a document is set in, and which of them has a character.
//!
//! Built in are Inter (Latin, Greek, Cyrillic; two weights) and Noto Sans for Hebrew and Arabic, cut down to those
//! scripts. An operator can add font files for more. A character that no face has is drawn as a box (□) that copies and
//! reads aloud as the character itself; the document then says so.

use std::sync::Arc;

use krilla::Data;
use krilla::text::Font;
use rustybuzz::Face;
use rustybuzz::ttf_parser;

use super::super::{FontFile, ReportError};

static REGULAR: &[u8] = include_bytes!("../../../reports/fonts/Inter-Regular.otf");
static SEMIBOLD: &[u8] = include_bytes!("../../../reports/fonts/Inter-SemiBold.otf");
static HEBREW: &[u8] = include_bytes!("../../../reports/fonts/NotoSansHebrew-Regular.ttf");
static ARABIC: &[u8] = include_bytes!("../../../reports/fonts/NotoSansArabic-Regular.ttf");

/// What stands for a character that no face has.
pub(super) const BOX: char = '\u{25a1}';

/// How heavy a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Running text.
    Regular,
    /// Headings and names.
    Semibold,
}

/// A place in [`Fonts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaceId(usize);

/// A face, as the shaper and as the writer know it.
pub(super) struct LoadedFace<'a> {
    /// For shaping.
    pub(super) shaper: Face<'a>,
    /// For writing.
    pub(super) font: Font,
}

/// All faces of a document: the two of Inter first.
pub(super) struct Fonts<'a>(Vec<LoadedFace<'a>>);

fn load(bytes: &[u8], data: Data) -> Result<LoadedFace<'_>, ReportError> {
    let broken = || ReportError::Broken("a font can't be read".to_owned());
    let shaper = Face::from_slice(bytes, 0).ok_or_else(broken)?;
    let font = Font::new(data, 0).ok_or_else(broken)?;
    Ok(LoadedFace { shaper, font })
}

impl<'a> Fonts<'a> {
    /// The built-in faces, then the operator's in their order.
    pub(super) fn load(more: &'a [FontFile]) -> Result<Self, ReportError> {
        let built_in = [REGULAR, SEMIBOLD, HEBREW, ARABIC].into_iter();
        let mut faces = built_in.map(|bytes| load(bytes, Data::from(bytes))).collect::<Result<Vec<_>, _>>()?;
        for FontFile(bytes) in more {
            faces.push(load(bytes, Data::from(Arc::clone(bytes)))?);
        }
        Ok(Self(faces))
    }

    /// The face of a place.
    pub(super) fn get(&self, id: FaceId) -> Result<&LoadedFace<'a>, ReportError> {
        self.0.get(id.0).ok_or_else(|| ReportError::Broken("a face that is not there".to_owned()))
    }

    /// The first face that has a character: Inter in the wanted weight before all others.
    pub(super) fn of(&self, char: char, weight: Weight) -> Option<FaceId> {
        let own = self.default_of(weight);
        let has = |id: &FaceId| self.0.get(id.0).is_some_and(|face| face.shaper.glyph_index(char).is_some());
        if has(&own) {
            return Some(own);
        }
        (0..self.0.len()).map(FaceId).find(has)
    }

    /// Inter in a weight.
    #[expect(clippy::unused_self, reason = "a place is of this very set of faces")]
    pub(super) fn default_of(&self, weight: Weight) -> FaceId {
        match weight {
            Weight::Regular => FaceId(0),
            Weight::Semibold => FaceId(1),
        }
    }
}

/// Whether the bytes are a font that documents can be set in: TrueType or OpenType, not a web font.
#[must_use]
pub fn is_font(bytes: &[u8]) -> bool {
    ttf_parser::Face::parse(bytes, 0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{BOX, Fonts, Weight, is_font};
    use crate::report::FontFile;

    #[test]
    fn scripts_have_a_face_and_what_has_none_is_known() {
        let fonts = Fonts::load(&[]).unwrap();
        for char in "Aé ß Ωж–€₪٣ שׁ ابلا".chars().chain([BOX]) {
            assert!(fonts.of(char, Weight::Semibold).is_some(), "{char:?}");
        }
        for char in ['日', '한', 'ไ', '🦀'] {
            assert!(fonts.of(char, Weight::Regular).is_none(), "{char:?}");
        }
    }

    #[test]
    fn what_is_no_font_is_refused() {
        assert!(is_font(super::HEBREW));
        assert!(!is_font(b"wOF2"));
        assert!(Fonts::load(&[FontFile(std::sync::Arc::new(vec![1, 2, 3]))]).is_err());
    }
}
