//! Invoices as files: golden texts of each format, and what has to hold of any page.
//!
//! With `RUNTAB_TEST_FILES=FOLDER` the files are also written there, to be looked at.

#[cfg(feature = "pdf")]
mod extract;
mod fixture;

use std::fmt::Write as _;

use runtab::report::{Document, Seller, csv, html, note};
use runtab::wire;

use fixture::{Drawn, credit_note, empty, long, seller, usual};

/// Keeps a file to be looked at.
fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("RUNTAB_TEST_FILES") {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).expect("a folder to write to");
    }
}

fn page(drawn: &Drawn, seller: &Seller, name: &str) -> String {
    let document = Document { invoice: &drawn.invoice, breakdown: &drawn.breakdown, seller };
    let bytes = html::render(&document).unwrap();
    assert_eq!(html::render(&document).unwrap(), bytes);
    keep(&format!("{name}.html"), &bytes);
    String::from_utf8(bytes).unwrap()
}

/// The text of a page, a line an element, without its style.
fn text_of(page: &str) -> String {
    let body = page.split("<body>").nth(1).unwrap();
    let (mut text, mut tag) = (String::new(), false);
    for char in body.chars() {
        match char {
            '<' => {
                tag = true;
                text.push('\n');
            }
            '>' => tag = false,
            _ if tag => {}
            char => text.push(char),
        }
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn golden_invoice_of_a_usual_month() {
    let (drawn, seller) = (usual("Acme Inc"), seller());
    let json = wire::invoice::Invoice::new(&drawn.invoice).unwrap();
    insta::assert_snapshot!("invoice_json", serde_json::to_string_pretty(&json).unwrap());
    insta::assert_snapshot!("invoice_csv", String::from_utf8(csv::render(&drawn.invoice).unwrap()).unwrap());
    insta::assert_snapshot!("invoice_html", text_of(&page(&drawn, &seller, "usual")));
    #[cfg(feature = "pdf")]
    insta::assert_snapshot!("invoice_pdf", pages::text(&pages::file(&drawn, &seller, "usual")));
}

#[test]
fn golden_credit_note() {
    let (note, seller) = (credit_note(), seller());
    let page = note::page(&note, &seller).unwrap();
    keep("note.html", &page);
    insta::assert_snapshot!("note_csv", String::from_utf8(note::csv(&note).unwrap()).unwrap());
    insta::assert_snapshot!("note_html", text_of(&String::from_utf8(page).unwrap()));
    #[cfg(feature = "pdf")]
    {
        let paper = note::paper(&note, &seller).unwrap();
        keep("note.pdf", &paper);
        assert_eq!(note::paper(&note, &seller).unwrap(), paper);
        insta::assert_snapshot!("note_pdf", pages::text(&paper));
    }
}

#[test]
fn a_draft_of_nothing_says_so() {
    let (drawn, nobody) = (empty(), Seller::default());
    let page = page(&drawn, &nobody, "empty");
    assert!(
        page.contains("Nothing was used in November 2026.") && page.contains(">Draft<") && page.contains("USD 0.00")
    );
    assert!(!page.contains("class=\"annex\"") && !page.contains("<footer"));
    #[cfg(feature = "pdf")]
    insta::assert_snapshot!("draft_pdf", pages::text(&pages::file(&drawn, &nobody, "empty")));
}

#[test]
fn a_font_file_that_is_none_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("font.ttf");
    let serve = || {
        let database = format!("sqlite:{}", folder.path().join("x.db").display());
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_runtab"))
            .args(["serve", "--listen", "127.0.0.1:0", "--database", &database])
            .env("RUNTAB_INVOICE_FONT_FILES", &file)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (done, said) = serve();
    assert!(!done && said.contains("can't read the font") && said.contains("font.ttf"), "{said}");
    if cfg!(feature = "pdf") {
        std::fs::write(&file, "wOF2").unwrap();
        let (done, said) = serve();
        assert!(!done && said.contains("neither a TrueType nor an OpenType font"), "{said}");
    }
}

#[cfg(feature = "pdf")]
mod pages {
    //! What has to hold of the pages of a PDF.

    use runtab::report::pdf;

    use super::*;

    pub(super) fn file(drawn: &Drawn, seller: &Seller, name: &str) -> Vec<u8> {
        let document = Document { invoice: &drawn.invoice, breakdown: &drawn.breakdown, seller };
        let bytes = pdf::render(&document).unwrap();
        assert_eq!(pdf::render(&document).unwrap(), bytes, "the same invoice gives the same bytes");
        keep(&format!("{name}.pdf"), &bytes);
        let marks = bytes.windows(21).any(|window| window == b"<pdfaid:part>2</pdfai");
        assert!(bytes.starts_with(b"%PDF-1.7") && marks, "it is PDF/A-2");
        bytes
    }

    pub(super) fn text(file: &[u8]) -> String {
        let mut text = String::new();
        for (place, lines) in extract::pages(file).iter().enumerate() {
            writeln!(text, "--- page {}\n{}", place + 1, lines.join("\n")).unwrap();
        }
        text
    }

    #[test]
    fn every_page_of_a_long_invoice_has_its_head_and_number_and_no_line_is_lost() {
        let drawn = long();
        assert!(drawn.invoice.lines.len() > 450, "{}", drawn.invoice.lines.len());
        let pages = extract::pages(&file(&drawn, &seller(), "long"));
        assert!(pages.len() > 20, "{}", pages.len());
        let of = |place: usize| format!("Page {} of {}", place + 1, pages.len());
        let mut found = 0;
        for (place, lines) in pages.iter().enumerate() {
            assert!(lines.iter().any(|line| line.contains(&of(place))), "{lines:?}");
            let head =
                |line: &String| line.starts_with("Item") || line.starts_with("Day") || line.starts_with("Sandbox");
            let notes = lines.iter().any(|line| line.starts_with("Payment"));
            assert!(notes || lines.iter().any(head), "page {}: {lines:?}", place + 1);
            found += lines.iter().filter(|line| line.contains("vCPU-hour\t") || line.contains("GiB-hour\t")).count();
        }
        assert_eq!(found, drawn.invoice.lines.len());
        page(&drawn, &seller(), "long");
    }

    #[test]
    fn names_of_any_kind_are_drawn_and_read_back_whole() {
        let wide = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft ".repeat(2);
        let names = [
            ("hebrew", "חברת אקמה בע\"מ (Acme 2026)"),
            ("arabic", "شركة أكمي للحوسبة السحابية"),
            ("wide", wide.trim_end()),
            ("formula", "=HYPERLINK(\"http://x\";\"y\") \u{202e}<b>&"),
            ("unknown", "株式会社アクメ 🦀"),
        ];
        for (kind, name) in names {
            let drawn = usual(name);
            let text = text(&file(&drawn, &seller(), kind));
            let squeezed = |text: &str| text.chars().filter(|char| !char.is_whitespace()).collect::<String>();
            let letters = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|char| char.is_alphanumeric()).collect();
                letters.sort_unstable();
                letters
            };
            // Beside the name stand the invoice's facts.
            let shown = text.split("Billed to").nth(1).unwrap().split("\nNumber").next().unwrap();
            match kind {
                // Words are drawn from right to left: what is drawn has the same letters.
                "hebrew" | "arabic" => assert_eq!(letters(shown.trim()), letters(name), "{shown}"),
                "formula" => assert!(shown.contains("=HYPERLINK(\"http://x\";\"y\")"), "{shown}"),
                _ => assert!(squeezed(shown).contains(&squeezed(name)), "{shown}"),
            }
            assert_eq!(text.contains("□ stands for"), kind == "unknown", "{text}");
            page(&drawn, &seller(), kind);
        }
    }

    #[test]
    fn long_notes_go_on_over_pages() {
        let words: String = "Every invoice is due within fourteen days of its date, without deduction. ".repeat(27);
        let words: String = words.chars().take(2_000).collect();
        let seller = Seller { payment_terms: words.clone(), footer: words.clone(), ..seller() };
        let text = text(&file(&usual("Acme Inc"), &seller, "notes"));
        // A line may end between any two words.
        let text = text.replace('\n', " ");
        assert_eq!(text.matches("fourteen days").count(), words.matches("fourteen days").count() * 2);
        page(&usual("Acme Inc"), &seller, "notes");
    }
}
