//! `[invoice]`: who sends invoices, and what stands on them.

use super::section::{OutOfBounds, section};
use crate::report::Seller;

/// Most characters of a text: half a page.
const TEXT_CHARS_MAX: usize = 2_000;

section! {
    /// What stands on invoices.
    Invoice = "invoice" {
        /// The seller's name; it stands for a logo as well.
        seller_name: String = String::new(), "RUNTAB_INVOICE_SELLER_NAME";
        /// The seller's address; lines are kept.
        seller_address: String = String::new(), "RUNTAB_INVOICE_SELLER_ADDRESS";
        /// The seller's tax number.
        seller_tax_id: String = String::new(), "RUNTAB_INVOICE_SELLER_TAX_ID";
        /// When and how to pay.
        payment_terms: String = String::new(), "RUNTAB_INVOICE_PAYMENT_TERMS";
        /// The last lines.
        footer: String = String::new(), "RUNTAB_INVOICE_FOOTER";
    }
}

impl Invoice {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        let texts = [
            ("seller_name", &self.seller_name),
            ("seller_address", &self.seller_address),
            ("seller_tax_id", &self.seller_tax_id),
            ("payment_terms", &self.payment_terms),
            ("footer", &self.footer),
        ];
        let unprintable = |text: &str| text.chars().any(|char| char.is_control() && char != '\n');
        let bad = texts.into_iter().find(|(_, text)| unprintable(text) || text.chars().count() > TEXT_CHARS_MAX);
        let detail = || format!("must be at most {TEXT_CHARS_MAX} printable characters");
        bad.map_or(Ok(()), |(key, _)| Err(OutOfBounds { key, detail: detail() }))
    }

    /// As reports take it.
    #[must_use]
    pub fn seller(&self) -> Seller {
        Seller {
            name: self.seller_name.clone(),
            address: self.seller_address.clone(),
            tax_id: self.seller_tax_id.clone(),
            payment_terms: self.payment_terms.clone(),
            footer: self.footer.clone(),
        }
    }
}
