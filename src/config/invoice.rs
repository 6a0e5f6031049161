//! `[invoice]`: who sends invoices, and what stands on them.

use std::path::Path;

use super::section::{OutOfBounds, section};
use crate::report::{FontFile, Seller};

/// Most characters of a text: half a page.
const TEXT_CHARS_MAX: usize = 2_000;

section! {
    /// What stands on invoices.
    Invoice = "invoice" {
        /// What stands for a logo; empty: the seller's name.
        logo_text: String = String::new(), "RUNTAB_INVOICE_LOGO_TEXT";
        /// The seller's name.
        seller_name: String = String::new(), "RUNTAB_INVOICE_SELLER_NAME";
        /// The seller's address; lines are kept.
        seller_address: String = String::new(), "RUNTAB_INVOICE_SELLER_ADDRESS";
        /// The seller's tax number.
        seller_tax_id: String = String::new(), "RUNTAB_INVOICE_SELLER_TAX_ID";
        /// When and how to pay.
        payment_terms: String = String::new(), "RUNTAB_INVOICE_PAYMENT_TERMS";
        /// The last lines.
        footer: String = String::new(), "RUNTAB_INVOICE_FOOTER";
        /// Font files for PDFs beside the built-in ones, separated by colons.
        font_files: String = String::new(), "RUNTAB_INVOICE_FONT_FILES";
    }
}

impl Invoice {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        let texts = [
            ("logo_text", &self.logo_text),
            ("seller_name", &self.seller_name),
            ("seller_address", &self.seller_address),
            ("seller_tax_id", &self.seller_tax_id),
            ("payment_terms", &self.payment_terms),
            ("footer", &self.footer),
            ("font_files", &self.font_files),
        ];
        let unprintable = |text: &str| text.chars().any(|char| char.is_control() && char != '\n');
        let bad = texts.into_iter().find(|(_, text)| unprintable(text) || text.chars().count() > TEXT_CHARS_MAX);
        let detail = || format!("must be at most {TEXT_CHARS_MAX} printable characters");
        bad.map_or(Ok(()), |(key, _)| Err(OutOfBounds { key, detail: detail() }))
    }

    /// The font files, in order.
    pub fn fonts(&self) -> impl Iterator<Item = &Path> {
        self.font_files.split(':').filter(|path| !path.is_empty()).map(Path::new)
    }

    /// As reports take it, with the bytes of [`Invoice::fonts`].
    #[must_use]
    pub fn seller(&self, fonts: Vec<FontFile>) -> Seller {
        Seller {
            logo_text: self.logo_text.clone(),
            name: self.seller_name.clone(),
            address: self.seller_address.clone(),
            tax_id: self.seller_tax_id.clone(),
            payment_terms: self.payment_terms.clone(),
            footer: self.footer.clone(),
            fonts,
        }
    }
}
