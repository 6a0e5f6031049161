//! Accounts.

use serde::Serialize;
use utoipa::ToSchema;

use super::reader::{Invalid, Value};
use super::schema::{Id, MicrosCount, NAME_CHARS_MAX, Name, TaxRateBps, TimeText};
use super::time::show_time;
use crate::domain;
use crate::domain::customer::AccountStatus;
use crate::domain::id::AccountId;
use crate::domain::money::Micros;
use crate::domain::tax::{TAX_RATE_BPS_MAX, TaxRate};
use crate::ledger::command::{CreateAccount, UpdateAccount};

const STATUSES: [(&str, AccountStatus); 2] =
    [("active", AccountStatus::Active), ("suspended", AccountStatus::Suspended)];

/// An account to make.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: AccountId,
    /// Defaults to the id.
    #[schema(value_type = Name, required = false)]
    pub name: String,
    /// Whether it can pay beyond its free time.
    #[schema(required = false, default = false)]
    pub card_on_file: bool,
    /// What is added to its invoices, in basis points (1,900 is 19 %); absent or null: no tax line.
    #[schema(value_type = Option<TaxRateBps>)]
    pub tax_rate_bps: Option<TaxRate>,
}

impl NewAccount {
    /// Reads the request.
    pub fn read(body: &Value<'_, '_>) -> Result<CreateAccount, Invalid> {
        let object = body.object(["id", "name", "card_on_file", "tax_rate_bps"])?;
        let id = object.required("id")?.id(AccountId::parse)?;
        let name = object.given("name").map(|name| name.text(NAME_CHARS_MAX)).transpose()?;
        let card_on_file = object.given("card_on_file").map(|flag| flag.flag()).transpose()?.unwrap_or(false);
        let tax = object.given("tax_rate_bps").map(|rate| tax_of(&rate)).transpose()?.flatten();
        Ok(CreateAccount { name: name.unwrap_or_else(|| id.to_string()), id, card_on_file, tax })
    }
}

/// What to change of an account; what is left out stays.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountChange {
    /// A new name.
    #[schema(value_type = Name, required = false)]
    pub name: Option<String>,
    /// Whether it can pay.
    #[schema(nullable = false)]
    pub card_on_file: Option<bool>,
    /// `active` or `suspended`.
    #[schema(value_type = AccountStatusWord, required = false)]
    pub status: Option<AccountStatus>,
    /// Most that all its keys together may spend in a UTC day; null removes the limit, 0 refuses all.
    #[schema(value_type = Option<MicrosCount>)]
    pub daily_limit_micros: Option<Option<Micros>>,
    /// What is added to its invoices from now on, in basis points; null removes the tax line.
    #[schema(value_type = Option<TaxRateBps>)]
    pub tax_rate_bps: Option<Option<TaxRate>>,
}

impl AccountChange {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<UpdateAccount, Invalid> {
        let object = body.object(["name", "card_on_file", "status", "daily_limit_micros", "tax_rate_bps"])?;
        Ok(UpdateAccount {
            id: account,
            name: object.given("name").map(|name| name.text(NAME_CHARS_MAX)).transpose()?,
            card_on_file: object.given("card_on_file").map(|flag| flag.flag()).transpose()?,
            status: object.given("status").map(|status| status.choice(&STATUSES)).transpose()?,
            daily_limit: object.given("daily_limit_micros").map(|limit| limit_of(&limit)).transpose()?,
            tax: object.given("tax_rate_bps").map(|rate| tax_of(&rate)).transpose()?,
        })
    }
}

/// A limit: an amount, or `null` for none.
pub(super) fn limit_of(value: &Value<'_, '_>) -> Result<Option<Micros>, Invalid> {
    if value.is_null() { Ok(None) } else { value.micros().map(Some) }
}

/// A tax rate, or `null` for none.
fn tax_of(value: &Value<'_, '_>) -> Result<Option<TaxRate>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(TaxRate::from_bps(value.integer(0, TAX_RATE_BPS_MAX)?))
}

/// Whether an account may start leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccountStatusWord {
    /// It may.
    Active,
    /// It may not; what runs is metered on.
    Suspended,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Account {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// Its name.
    #[schema(value_type = Name)]
    pub name: String,
    /// Whether it may start leases.
    pub status: AccountStatusWord,
    /// Whether it can pay beyond its free time.
    pub card_on_file: bool,
    /// Most that all its keys together may spend in a UTC day; null: no limit.
    #[schema(value_type = Option<MicrosCount>, required = true)]
    pub daily_limit_micros: Option<i64>,
    /// What is added to its invoices, in basis points; null: no tax line.
    #[schema(value_type = Option<TaxRateBps>, required = true)]
    pub tax_rate_bps: Option<i64>,
    /// When it was made.
    #[schema(value_type = TimeText)]
    pub created_at: String,
}

impl From<&domain::customer::Account> for Account {
    fn from(account: &domain::customer::Account) -> Self {
        Self {
            id: account.id.to_string(),
            name: account.name.clone(),
            status: match account.status {
                AccountStatus::Active => AccountStatusWord::Active,
                AccountStatus::Suspended => AccountStatusWord::Suspended,
            },
            card_on_file: account.card_on_file,
            daily_limit_micros: account.daily_limit.map(Micros::count),
            tax_rate_bps: account.tax.map(TaxRate::bps),
            created_at: show_time(account.created_at),
        }
    }
}
