//! Pages to bytes: the only place that knows the writer's floating point.
//!
//! PDF/A-2b, checked as it is written. Nothing in it depends on the time or the machine.

use krilla::Document;
use krilla::SerializeSettings;
use krilla::color::rgb;
use krilla::configure::{Archival, ConfigurationBuilder};
use krilla::geom::{Path, PathBuilder, Point, Rect};
use krilla::metadata::{DateTime, Metadata};
use krilla::num::NormalizedF32;
use krilla::page::PageSettings;
use krilla::paint::{Fill, FillRule};
use krilla::surface::Surface;
use krilla::text::{GlyphId, KrillaGlyph};

use super::super::ReportError;
use super::fonts::Fonts;
use super::paper::{HEIGHT, Mark, WIDTH};
use super::text::{Colour, Len, Line};
use crate::domain::time::Timestamp;

/// What the file says of itself.
pub(super) struct About {
    /// The title.
    pub(super) title: String,
    /// Who sends it; may be empty.
    pub(super) author: String,
    /// What tells it from other documents.
    pub(super) id: String,
    /// When what it shows was fixed.
    pub(super) at: Timestamp,
}

/// The file.
pub(super) fn write(pages: &[Vec<Mark>], fonts: &Fonts<'_>, about: &About) -> Result<Vec<u8>, ReportError> {
    let broken = |what: String| ReportError::Broken(what);
    let configuration = ConfigurationBuilder::new().with_archival_validator(Archival::A2_B).finish();
    let configuration = configuration.map_err(|error| broken(format!("{error:?}")))?;
    let mut document = Document::new_with(SerializeSettings { configuration, ..SerializeSettings::default() });
    for marks in pages {
        let size = PageSettings::from_wh(points(WIDTH), points(HEIGHT));
        let mut page = document.start_page_with(size.ok_or_else(|| broken("the size of a page".to_owned()))?);
        let mut surface = page.surface();
        for mark in marks {
            draw(&mut surface, fonts, mark)?;
        }
        surface.finish();
        page.finish();
    }
    document.set_metadata(metadata(about)?);
    document.finish().map_err(|error| broken(format!("{error:?}")))
}

fn metadata(about: &About) -> Result<Metadata, ReportError> {
    let part = |number: i64| u8::try_from(number).map_err(|_| ReportError::Broken("a date".to_owned()));
    let (year, month, day) = about.at.day().ymd();
    let seconds = about.at.since(about.at.day().start()).div_euclid(1_000);
    let year = u16::try_from(year).map_err(|_| ReportError::Broken("a year".to_owned()))?;
    let date = DateTime::new(year).month(part(month)?).day(part(day)?);
    let date = date.hour(part(seconds.div_euclid(3_600))?).minute(part(seconds.div_euclid(60).rem_euclid(60))?);
    let date = date.second(part(seconds.rem_euclid(60))?).utc_offset_hour(0).utc_offset_minute(0);
    let metadata = Metadata::new()
        .title(about.title.clone())
        .language("en".to_owned())
        .creator("runtab".to_owned())
        .producer("runtab".to_owned())
        .document_id(about.id.clone())
        .creation_date(date);
    Ok(if about.author.is_empty() { metadata } else { metadata.authors(vec![about.author.clone()]) })
}

/// Hundredths of a point as points.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::float_arithmetic,
    reason = "a PDF has floating point; a sheet is far within its range"
)]
fn points(length: Len) -> f32 {
    (length as f64 / 100.0) as f32
}

/// Units of a face as parts of its em.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::float_arithmetic,
    reason = "a PDF has floating point; a glyph is far within its range"
)]
fn ems(units: i32, per_em: i32) -> f32 {
    (f64::from(units) / f64::from(per_em)) as f32
}

fn fill(colour: Colour) -> Fill {
    let Colour(red, green, blue) = colour;
    Fill { paint: rgb::Color::new(red, green, blue).into(), opacity: NormalizedF32::ONE, rule: FillRule::NonZero }
}

fn draw(surface: &mut Surface<'_>, fonts: &Fonts<'_>, mark: &Mark) -> Result<(), ReportError> {
    match mark {
        Mark::Text { x, y, line } => draw_line(surface, fonts, *x, *y, line),
        Mark::Rect { x, y, width, height, radius, colour } => {
            let (right, bottom) = (x.saturating_add(*width), y.saturating_add(*height));
            let shape = if *radius > 0 {
                rounded(*x, *y, right, bottom, *radius)
            } else {
                let mut path = PathBuilder::new();
                let rect = Rect::from_ltrb(points(*x), points(*y), points(right), points(bottom));
                rect.and_then(|rect| {
                    path.push_rect(rect);
                    path.finish()
                })
            };
            if let Some(shape) = shape {
                surface.set_fill(Some(fill(*colour)));
                surface.draw_path(&shape);
            }
            Ok(())
        }
    }
}

fn rounded(left: Len, top: Len, right: Len, bottom: Len, radius: Len) -> Option<Path> {
    let (inner_left, inner_right) = (left.saturating_add(radius), right.saturating_sub(radius));
    let (inner_top, inner_bottom) = (top.saturating_add(radius), bottom.saturating_sub(radius));
    let mut path = PathBuilder::new();
    path.move_to(points(inner_left), points(top));
    path.line_to(points(inner_right), points(top));
    path.quad_to(points(right), points(top), points(right), points(inner_top));
    path.line_to(points(right), points(inner_bottom));
    path.quad_to(points(right), points(bottom), points(inner_right), points(bottom));
    path.line_to(points(inner_left), points(bottom));
    path.quad_to(points(left), points(bottom), points(left), points(inner_bottom));
    path.line_to(points(left), points(inner_top));
    path.quad_to(points(left), points(top), points(inner_left), points(top));
    path.close();
    path.finish()
}

fn draw_line(surface: &mut Surface<'_>, fonts: &Fonts<'_>, x: Len, y: Len, line: &Line) -> Result<(), ReportError> {
    surface.set_fill(Some(fill(line.style.colour)));
    let mut from = x;
    for run in &line.runs {
        let face = fonts.get(run.face)?;
        let per_em = face.shaper.units_per_em();
        let glyphs: Vec<KrillaGlyph> = run
            .glyphs
            .iter()
            .map(|glyph| KrillaGlyph {
                glyph_id: GlyphId::new(glyph.id),
                text_range: glyph.text.clone(),
                x_advance: ems(glyph.advance, per_em),
                x_offset: ems(glyph.x, per_em),
                y_offset: ems(glyph.y, per_em),
                y_advance: 0.0,
                location: None,
            })
            .collect();
        let start = Point::from_xy(points(from), points(y));
        surface.draw_glyphs(start, &glyphs, face.font.clone(), &run.text, points(line.style.size), false);
        from = from.saturating_add(run.width);
    }
    Ok(())
}
