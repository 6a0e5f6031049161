//! Reads the text back out of a PDF of ours, as a viewer that copies it would: page by page, in the order it was drawn.
//!
//! It knows just what such a file holds: objects that are not packed, streams deflated or plain, fonts addressed by
//! glyph with a table of what each glyph means, and text that is given beside its glyphs.

use std::collections::BTreeMap;
use std::io::Read as _;

/// An object: its dictionary and, inflated, its stream.
#[derive(Default)]
struct Object {
    dictionary: String,
    stream: Vec<u8>,
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // By the first byte, then the whole: files are large, and tests are not optimised.
    while let Some(next) = bytes.get(at..)?.iter().position(|byte| *byte == what[0]) {
        at += next;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn objects(file: &[u8]) -> BTreeMap<u32, Object> {
    let mut objects = BTreeMap::new();
    let mut at = 0;
    while let Some(begin) = find(file, b" 0 obj\n", at) {
        let digits = file[..begin].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let number: u32 = latin(&file[begin - digits..begin]).parse().expect("an object's number");
        let body = begin + 7;
        let end = find(file, b"endobj", body).expect("an object's end");
        let mut object = Object::default();
        match find(&file[..end], b"stream\n", body) {
            None => object.dictionary = latin(&file[body..end]),
            Some(start) => {
                object.dictionary = latin(&file[body..start]);
                let length = number_after(&object.dictionary, "/Length ").expect("a length");
                let packed = &file[start + 7..start + 7 + usize::try_from(length).unwrap()];
                if object.dictionary.contains("/FlateDecode") {
                    flate2::read::ZlibDecoder::new(packed).read_to_end(&mut object.stream).expect("a deflated stream");
                } else {
                    object.stream = packed.to_vec();
                }
                at = start + 7 + packed.len();
                objects.insert(number, object);
                continue;
            }
        }
        at = end;
        objects.insert(number, object);
    }
    objects
}

fn number_after(text: &str, name: &str) -> Option<u32> {
    let rest = &text[text.find(name)? + name.len()..];
    rest.trim_start().split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// `/name 12 0 R` of a dictionary.
fn reference(text: &str, name: &str) -> Option<u32> {
    let at = text.find(&format!("/{name} "))?;
    number_after(&text[at..], &format!("/{name} "))
}

fn hex(text: &str) -> Vec<u16> {
    let bytes: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    bytes.chunks(4).map(|digits| u16::from_str_radix(&latin(digits), 16).expect("four digits")).collect()
}

fn utf16(units: &[u16]) -> String {
    String::from_utf16(units).expect("UTF-16")
}

/// What the glyphs of a font mean.
fn meanings(map: &str) -> BTreeMap<u16, String> {
    let mut meanings = BTreeMap::new();
    for block in map.split("beginbfchar").skip(1) {
        for line in block.split("endbfchar").next().unwrap_or_default().lines() {
            if let Some((glyph, text)) = line.trim().split_once("> <") {
                meanings.insert(hex(glyph)[0], utf16(&hex(text)));
            }
        }
    }
    assert!(!map.contains("beginbfrange"), "ranges are not read");
    meanings
}

/// A token of a content stream.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Bytes(Vec<u8>),
}

fn tokens(stream: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        match stream[at] {
            b'(' => {
                let (mut bytes, mut depth) = (Vec::new(), 1);
                at += 1;
                while depth > 0 {
                    match stream[at] {
                        b'\\' => {
                            at += 1;
                            let (byte, more) = escaped(&stream[at..]);
                            bytes.extend(byte);
                            at += more;
                            continue;
                        }
                        b'(' => depth += 1,
                        b')' => depth -= 1,
                        _ => {}
                    }
                    if depth > 0 {
                        bytes.push(stream[at]);
                    }
                    at += 1;
                }
                tokens.push(Token::Bytes(bytes));
            }
            b'<' if stream.get(at + 1) == Some(&b'<') => at += 2,
            b'<' => {
                let end = find(stream, b">", at).expect("the end of digits");
                let digits: Vec<u8> = stream[at + 1..end].to_vec();
                let byte = |pair: &[u8]| u8::from_str_radix(&latin(pair), 16).expect("two digits");
                tokens.push(Token::Bytes(digits.chunks(2).map(byte).collect()));
                at = end + 1;
            }
            byte if byte.is_ascii_whitespace() || b"[]<>".contains(&byte) => at += 1,
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b"[]<>()/".contains(byte);
                let length = 1 + stream[at + 1..].iter().take_while(|byte| !ends(byte)).count();
                tokens.push(Token::Word(latin(&stream[at..at + length])));
                at += length;
            }
        }
    }
    tokens
}

/// The byte that an escape stands for, and how long the escape is.
fn escaped(rest: &[u8]) -> (Option<u8>, usize) {
    match rest[0] {
        b'n' => (Some(b'\n'), 1),
        b'r' => (Some(b'\r'), 1),
        b't' => (Some(b'\t'), 1),
        b'b' => (Some(8), 1),
        b'f' => (Some(12), 1),
        digit if digit.is_ascii_digit() => {
            let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
            (u8::from_str_radix(&latin(&rest[..digits]), 8).ok(), digits)
        }
        other => (Some(other), 1),
    }
}

fn units(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|pair| u16::from(pair[0]) << 8 | u16::from(*pair.get(1).unwrap_or(&0))).collect()
}

/// What is drawn: texts at one base line are joined, as far as they follow each other.
fn drawn(stream: &[u8], fonts: &BTreeMap<String, BTreeMap<u16, String>>) -> Vec<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let (mut font, mut instead, mut base): (String, Option<String>, String) = Default::default();
    let mut operands: Vec<Token> = Vec::new();
    // Texts that begin at one base line are told apart; pieces of one text are not.
    let mut begun = false;
    for token in tokens(stream) {
        let Token::Word(word) = &token else {
            operands.push(token);
            continue;
        };
        let show = |lines: &mut Vec<(String, String)>, text: &str| match lines.last_mut() {
            Some((known, line)) if *known == base => line.push_str(text),
            _ => lines.push((base.clone(), text.to_owned())),
        };
        match word.as_str() {
            "Tf" => {
                font = operands
                    .iter()
                    .rev()
                    .find_map(|token| match token {
                        Token::Word(name) if name.starts_with('/') => Some(name[1..].to_owned()),
                        _ => None,
                    })
                    .expect("a font's name");
            }
            "Tm" => {
                if let Some(Token::Word(y)) = operands.last() {
                    if *y == base && begun {
                        show(&mut lines, "\t");
                    }
                    begun = false;
                    y.clone_into(&mut base);
                }
            }
            "BDC" => {
                let text = operands.windows(2).find_map(|pair| match pair {
                    [Token::Word(name), Token::Bytes(text)] if name == "/ActualText" => Some(text.clone()),
                    _ => None,
                });
                instead = text.map(|text| {
                    text.strip_prefix(&[0xfe, 0xff]).map_or_else(|| latin(&text), |rest| utf16(&units(rest)))
                });
            }
            "BT" => begun = true,
            "EMC" => instead = None,
            // Given text stands for all glyphs until its end: it is shown with the first.
            "Tj" | "TJ" if instead.is_some() => {
                let text = instead.as_mut().map(std::mem::take).unwrap_or_default();
                show(&mut lines, &text);
            }
            "Tj" | "TJ" => {
                for token in &operands {
                    let Token::Bytes(bytes) = token else { continue };
                    for glyph in units(bytes) {
                        let meaning = fonts[&font].get(&glyph).map_or("\u{fffd}", String::as_str);
                        show(&mut lines, meaning);
                    }
                }
            }
            _ => {
                operands.push(token);
                continue;
            }
        }
        operands.clear();
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The texts of each page.
pub(super) fn pages(file: &[u8]) -> Vec<Vec<String>> {
    let objects = objects(file);
    let page = |object: &&Object| object.dictionary.contains("/Type/Page/");
    objects
        .values()
        .filter(page)
        .map(|page| {
            let resources = match reference(&page.dictionary, "Resources") {
                Some(number) => objects[&number].dictionary.clone(),
                None => page.dictionary.clone(),
            };
            let mut fonts = BTreeMap::new();
            let list = resources.split("/Font").nth(1).unwrap_or_default();
            for part in list.split('/').skip(1) {
                let mut words = part.split_whitespace();
                let (Some(name), Some(Ok(number))) = (words.next(), words.next().map(str::parse::<u32>)) else { break };
                let map = reference(&objects[&number].dictionary, "ToUnicode").map(|map| &objects[&map].stream);
                fonts.insert(name.to_owned(), map.map(|map| meanings(&latin(map))).unwrap_or_default());
            }
            let contents = reference(&page.dictionary, "Contents").expect("contents");
            drawn(&objects[&contents].stream, &fonts)
        })
        .collect()
}
